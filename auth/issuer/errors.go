package issuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"gatehouse/auth/keys"
)

// Error is why keys could not be had. Its text is made of fixed parts: nothing
// that an issuer answered is in it, except a status number.
type Error struct {
	Doing  string      // "read discovery document", "read key set", "read key set file"
	Health keys.Health // the class, which the receivers get too
	Status int         // with keys.HealthStatus
	Detail string      // a fixed text, or empty
	// Found is the issuer that the discovery document names, with
	// keys.HealthIssuer, cut and made printable; for a log field, not in Error.
	Found string
	// LeftOut says why no key of the set is usable, with keys.HealthNoKey: a few
	// lines, quoted and cut, for a log field too.
	LeftOut []string
}

func (e *Error) Error() string {
	switch {
	case e.Health == keys.HealthStatus:
		return fmt.Sprintf("%s: status %d", e.Doing, e.Status)
	case e.Detail != "":
		return e.Doing + ": " + e.Health.Text() + ": " + e.Detail
	}
	return e.Doing + ": " + e.Health.Text()
}

// What is said about failures that have no type of their own.
var (
	errRedirect  = errors.New("redirect to another origin, or too many")
	errTooLarge  = errors.New("body larger than the cap")
	errNotLocal  = errors.New("cleartext to an address that is not loopback")
	errMalformed = errors.New("document malformed")
)

// failure sorts err, from one exchange with an issuer, into the closed list.
func failure(doing string, err error, ex *exchange) *Error {
	e := &Error{Doing: doing}
	switch {
	case errors.Is(err, errRedirect):
		e.Health = keys.HealthRedirect
	case ex.overflow:
		e.Health = keys.HealthTooLarge
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		e.Health = keys.HealthTimeout
	case ex.status != 0 && ex.status != http.StatusOK:
		e.Health, e.Status = keys.HealthStatus, ex.status
	case errors.Is(err, errMalformed) || ex.complete:
		e.Health = keys.HealthMalformed
	default:
		e.Health, e.Detail = connection(err)
	}
	return e
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// connection says what went wrong before there was an answer.
func connection(err error) (keys.Health, string) {
	var (
		unknownCA x509.UnknownAuthorityError
		wrongHost x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		op        *net.OpError
		dns       *net.DNSError
	)
	switch {
	case errors.As(err, &unknownCA):
		return keys.HealthTLS, "its certificate is signed by an unknown authority"
	case errors.As(err, &wrongHost):
		return keys.HealthTLS, "its certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return keys.HealthTLS, "its certificate has expired or is not yet valid"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return keys.HealthTLS, "its certificate is not acceptable"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return keys.HealthTLS, "it does not speak TLS there"
	case errors.As(err, &op) && strings.HasSuffix(op.Op, " error"), strings.HasPrefix(innermost(err).Error(), "tls: "):
		return keys.HealthTLS, "no handshake; TLS 1.2 or later is needed" // crypto/tls has no type for it
	case errors.Is(err, errNotLocal):
		return keys.HealthUnreachable, "http to an address that is not loopback"
	case errors.As(err, &dns):
		return keys.HealthUnreachable, "its host name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		return keys.HealthUnreachable, "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return keys.HealthUnreachable, "no route to it"
	}
	return keys.HealthUnreachable, "connection broken"
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// few cuts lines for the log.
func few(lines []string) []string {
	out := make([]string, 0, 4)
	for _, l := range lines[:min(len(lines), cap(out))] {
		out = append(out, l[:min(len(l), 160)])
	}
	return out
}

// printable returns s when it is a short piece of visible ASCII.
func printable(s string) string {
	if len(s) > 200 {
		return "(longer than 200 bytes)"
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return "(not a URL)"
		}
	}
	return s
}
