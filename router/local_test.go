package router

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestLocalHost(t *testing.T) {
	for _, c := range []struct {
		host string
		port int
		want bool
	}{
		{"localhost:8080", 8080, true},
		{"LOCALHOST:8080", 8080, true},
		{"127.0.0.1:8080", 8080, true},
		{"[::1]:8080", 8080, true},
		{"[0:0:0:0:0:0:0:1]:8080", 8080, true},
		{"127.0.0.2:8080", 8080, true},
		{"localhost", 80, true},
		{"localhost", 443, true},
		{"[::1]", 443, true},
		{"localhost:80", 80, true},

		{"", 8080, false},
		{"localhost", 8080, false},
		{"localhost:", 8080, false},
		{"localhost:9999", 8080, false},
		{"localhost:08080", 8080, false},
		{"localhost:80800", 8080, false},
		{"localhost:8080x", 8080, false},
		{"localhost:+8080", 8080, false},
		{"localhost:8080:8080", 8080, false},
		{"localhost.:8080", 8080, false},
		{"localhost.evil.test:8080", 8080, false},
		{"evil.localhost:8080", 8080, false},
		{"127.0.0.1.nip.io:8080", 8080, false},
		{"evil.test:8080", 8080, false},
		{"0.0.0.0:8080", 8080, false},
		{"[::]:8080", 8080, false},
		{"127.1:8080", 8080, false},
		{"2130706433:8080", 8080, false},
		{"0x7f.0.0.1:8080", 8080, false},
		{"127.0.0.1@evil.test:8080", 8080, false},
		{"::1:8080", 8080, false},
		{"[::1", 8080, false},
		{"[::1]8080", 8080, false},
		{"[localhost]:8080", 8080, false},
		{"[127.0.0.1]:8080", 8080, false},
		{"[::1%25lo]:8080", 8080, false},
		{"[::1%lo]:8080", 8080, false},
		{" localhost:8080", 8080, false},
		{"localhost:8080/", 8080, false},
		{":8080", 8080, false},
		{"192.0.2.1:8080", 8080, false},
	} {
		if got := localHost(c.host, c.port); got != c.want {
			t.Errorf("%q on port %d: %t, want %t", c.host, c.port, got, c.want)
		}
	}
}

func TestLoopbackOrigin(t *testing.T) {
	for origin, want := range map[string]bool{
		"http://localhost":                    true,
		"http://localhost:6274":               true,
		"https://localhost:6274":              true,
		"http://127.0.0.1:3000":               true,
		"http://[::1]:3000":                   true,
		"null":                                false,
		"":                                    false,
		"localhost:6274":                      false,
		"http://localhost.evil.test":          false,
		"http://evil.test":                    false,
		"http://evil.test:6274":               false,
		"http://localhost:6274/":              false,
		"http://localhost@evil.test":          false,
		"http://localhost:x":                  false,
		"http://localhost:6274, http://a":     false,
		"HTTP://localhost":                    false,
		"ftp://localhost":                     false,
		"file://localhost":                    false,
		"http://":                             false,
		"http:///localhost":                   false,
		"chrome-extension://abcdefghijklmnop": false,
	} {
		if got := loopbackOrigin(origin); got != want {
			t.Errorf("%q: %t, want %t", origin, got, want)
		}
	}
}

// FuzzHost checks that a Host that passes means a loopback address to every
// reader: to Go's URL parser as well as to ours.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "evil.test:8080", "[::1%25eth0]:8080", "localhost", "a@localhost:8080", "localhost:8080#", "[::ffff:127.0.0.1]:8080"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		const port = 8080
		if !localHost(host, port) {
			return
		}
		u, err := url.Parse("http://" + host + "/mcp")
		if err != nil || u.Port() != "8080" || u.User != nil || u.Path != "/mcp" {
			t.Fatalf("%q passes, and a URL with it is %v, %v", host, u, err)
		}
		if a, err := netip.ParseAddr(u.Hostname()); strings.ToLower(u.Hostname()) != "localhost" && (err != nil || !a.Unmap().IsLoopback()) {
			t.Fatalf("%q passes and means %q", host, u.Hostname())
		}
		if !loopbackOrigin("http://" + host) {
			t.Fatalf("%q passes as a Host and not as an Origin", host)
		}
	})
}

// FuzzOrigin checks the same of an Origin.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"http://localhost:6274", "null", "https://[::1]", "http://localhost@evil.test", "http://127.0.0.1:80\\@evil.test"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, origin string) {
		if !loopbackOrigin(origin) {
			return
		}
		u, err := url.Parse(origin)
		if err != nil || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q passes and is %v, %v", origin, u, err)
		}
		if a, err := netip.ParseAddr(u.Hostname()); strings.ToLower(u.Hostname()) != "localhost" && (err != nil || !a.Unmap().IsLoopback()) {
			t.Fatalf("%q passes and means %q", origin, u.Hostname())
		}
	})
}
