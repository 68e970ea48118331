package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"gatehouse/auth/identity"
	"gatehouse/auth/issuer"
	"gatehouse/cmd/internal/plan"
)

const (
	planFD  = 3
	maxPlan = 1 << 20 // bytes
)

// readPlan reads the keykeeper's part strictly, from the start of the file
// wherever its offset is: a restarted keykeeper gets the same descriptor.
func readPlan() (plan.Keykeeper, error) {
	var p plan.Keykeeper
	if _, err := unix.FcntlInt(planFD, unix.F_GET_SEALS, 0); err != nil {
		return p, errors.New("there is none") // no memory file; the runtime has files of its own
	}
	f := os.NewFile(planFD, "plan")
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxPlan+1))
	if err != nil || len(b) > maxPlan {
		return p, errors.New("it can't be read, or is larger than 1 MiB")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("it is not a keykeeper's plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("it is not a keykeeper's plan: data after it")
	}
	return p, nil
}

// sources are the plan's in the engine's terms.
func sources(p plan.Keykeeper) []issuer.Source {
	out := make([]issuer.Source, len(p.Issuers))
	for i, s := range p.Issuers {
		out[i] = issuer.Source{
			Issuer: identity.Issuer(s.Issuer), DiscoveryURL: s.DiscoveryURL, JWKSURL: s.JWKSURL,
			CAPEM: s.CAPEM, JWKSFile: s.JWKSFile, Refresh: s.Refresh,
		}
	}
	return out
}

// socket takes an inherited descriptor over, which must be a SOCK_SEQPACKET one.
func socket(fd int) (net.Conn, error) {
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, errors.New("it is not a SOCK_SEQPACKET socket")
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close() // FileConn has a copy
	return net.FileConn(f)
}
