package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
)

// maxListeners bounds the listeners, and so the descriptors that are kept free
// for them.
const maxListeners = 16

// endpoint is one address to listen on. An optional one is left out when the
// host has no such address family.
type endpoint struct {
	addr     netip.Addr
	optional bool
}

// endpoints spells out the configured addresses. localhost is 127.0.0.1 and ::1,
// either of which a host may lack; clients resolve it to any of the two. Those that
// 0.0.0.0 or :: takes in are left out: they could not be bound beside it.
func endpoints(addresses []string) ([]endpoint, error) {
	var out []endpoint
	add := func(a string, optional bool) error {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", a, err)
		}
		for i := range out {
			if out[i].addr == addr {
				out[i].optional = out[i].optional && optional
				return nil
			}
		}
		out = append(out, endpoint{addr, optional})
		return nil
	}
	for _, a := range addresses {
		both, optional := []string{a}, false
		if a == "localhost" {
			both, optional = []string{"127.0.0.1", "::1"}, true
		}
		for _, one := range both {
			if err := add(one, optional); err != nil {
				return nil, err
			}
		}
	}
	all := slices.Clone(out)
	out = slices.DeleteFunc(out, func(e endpoint) bool { return takenIn(e.addr, all) })
	if len(out) > maxListeners {
		return nil, fmt.Errorf("listen on %d addresses: at most %d are possible", len(out), maxListeners)
	}
	return out, nil
}

// takenIn reports whether one of the others is every address, a among them.
func takenIn(a netip.Addr, ends []endpoint) bool {
	return !a.IsUnspecified() && slices.ContainsFunc(ends, func(e endpoint) bool {
		return e.addr.IsUnspecified() && (e.addr.Is6() || a.Is4())
	})
}

// listen binds all endpoints on one port, or none of them. With port 0 the first
// one's port is used for the others too, and tried anew when it is taken there.
func listen(ends []endpoint, port int) ([]*net.TCPListener, error) {
	for attempt := 0; ; attempt++ {
		lns, err := listenOnce(ends, port)
		if err == nil || port != 0 || attempt == 10 || !errors.Is(err, syscall.EADDRINUSE) {
			return lns, err
		}
	}
}

func listenOnce(ends []endpoint, port int) (lns []*net.TCPListener, err error) {
	defer func() {
		if err != nil {
			closeAll(lns)
			lns = nil
		}
	}()
	var lacking error
	for _, e := range ends {
		ln, err := net.ListenTCP(network(e.addr, ends), net.TCPAddrFromAddrPort(netip.AddrPortFrom(e.addr, uint16(port))))
		switch {
		case err == nil:
			lns = append(lns, ln)
			port = ln.Addr().(*net.TCPAddr).Port
		case e.optional && hostLacks(err):
			lacking = err
		default:
			return lns, bindError(e.addr, port, err)
		}
	}
	if len(lns) == 0 {
		return nil, fmt.Errorf("listen on localhost: %w", cmp.Or(lacking, errors.New("no address")))
	}
	return lns, nil
}

// network keeps the families apart, except that :: alone takes both.
func network(a netip.Addr, ends []endpoint) string {
	switch {
	case a.Is4():
		return "tcp4"
	case a != netip.IPv6Unspecified():
		return "tcp6"
	}
	for _, e := range ends {
		if e.addr.Is4() {
			return "tcp6"
		}
	}
	return "tcp"
}

// hostLacks reports whether the host has no such address or family.
func hostLacks(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}

// bindError says why an address can't be listened on, and who is in the way.
func bindError(a netip.Addr, port int, err error) error {
	at := net.JoinHostPort(a.String(), strconv.Itoa(port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &bindRefusal{fmt.Sprintf("listen on %s: the port is in use %s; stop that, or choose another port (MCP_PORT)", at, holder("/proc", a, port)), err}
	case errors.Is(err, syscall.EACCES):
		return &bindRefusal{fmt.Sprintf("listen on %s: only root may listen on this port here; choose another (MCP_PORT), or start as root", at), err}
	case hostLacks(err):
		return &bindRefusal{fmt.Sprintf("listen on %s: this machine has no such address; choose others (MCP_BIND_ADDRESS)", at), err}
	}
	return fmt.Errorf("listen on %s: %w", at, err)
}

// bindRefusal is why an address can't be listened on, in words that say what to
// do; the cause is kept for errors.Is.
type bindRefusal struct {
	text  string
	cause error
}

func (e *bindRefusal) Error() string { return e.text }
func (e *bindRefusal) Unwrap() error { return e.cause }

func closeAll(lns []*net.TCPListener) {
	for _, ln := range lns {
		ln.Close()
	}
}

// addressesOf lists where the listeners really are.
func addressesOf(lns []*net.TCPListener) []string {
	out := make([]string, len(lns))
	for i, ln := range lns {
		out[i] = ln.Addr().String()
	}
	return out
}
