package spawn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// The wire format between front end and monitor; docs/frames.md is its own page.
// One frame is one SOCK_SEQPACKET message: a type byte and fixed fields in
// network byte order, a string as two bytes of length and its bytes. There is one
// way to write a frame: parsing and encoding again gives the same bytes.
const (
	// MaxFrame is the largest frame in bytes.
	MaxFrame = 24 << 10
	// MaxToken is the longest token that a frame can carry, in bytes.
	MaxToken = 16 << 10
	// MaxReason is the longest reason that a frame can carry, in bytes.
	MaxReason = 1 << 10
	// MaxAccount is the longest account name, in bytes.
	MaxAccount = 256
	// ProtocolVersion is what HELLO must name.
	ProtocolVersion = 1

	spawnedFDs = 4 // stdin-write, stdout-read, stderr-read, pidfd
	certFDs    = 2 // certificate, key
	planFDs    = 1 // the front end's part of a plan

	// maxLabel is the longest label of a session, in bytes.
	maxLabel = 16
)

// Type is the first byte of a frame.
type Type uint8

// Frames of the front end, then frames of the monitor. Anything else, in either
// direction, is a protocol fault.
const (
	TypeHello Type = 0x01
	TypeSpawn Type = 0x02
	TypeRenew Type = 0x03
	TypeKill  Type = 0x04

	TypeInterrupt Type = 0x05
	TypeStatus    Type = 0x06

	TypeSpawned Type = 0x81
	TypeRefused Type = 0x82
	TypeRenewed Type = 0x83
	TypeExited  Type = 0x84
	TypeCert    Type = 0x85
	TypeReport  Type = 0x86
	TypePlan    Type = 0x87
)

// String names the type as docs/frames.md does.
func (t Type) String() string {
	switch t {
	case TypeHello:
		return "HELLO"
	case TypeSpawn:
		return "SPAWN"
	case TypeRenew:
		return "RENEW"
	case TypeKill:
		return "KILL"
	case TypeInterrupt:
		return "INTERRUPT"
	case TypeStatus:
		return "STATUS"
	case TypeReport:
		return "REPORT"
	case TypePlan:
		return "PLAN"
	case TypeSpawned:
		return "SPAWNED"
	case TypeRefused:
		return "REFUSED"
	case TypeRenewed:
		return "RENEWED"
	case TypeExited:
		return "EXITED"
	case TypeCert:
		return "CERT"
	}
	return fmt.Sprintf("frame %#02x", uint8(t))
}

// Frame is one of the frame types below.
type Frame interface {
	Type() Type
	// append adds the frame's fields, without the type byte.
	append(b []byte) []byte
}

type (
	// Hello says that the front end is ready. It comes once, and first.
	Hello struct{ Version uint16 }

	// SpawnRequest asks for a worker of the server with that index.
	SpawnRequest struct {
		Seq    uint64
		Server uint16
		Token  string
	}

	// RenewRequest shows a newer token of the same principal.
	RenewRequest struct {
		Seq, Handle uint64
		Token       string
	}

	// KillRequest ends a worker. It has no answer but EXITED.
	KillRequest struct{ Seq, Handle uint64 }

	// InterruptRequest sends SIGINT to a worker's first process. It has no answer.
	InterruptRequest struct{ Seq, Handle uint64 }

	// SessionStatus says, for an operator, how one session is. It answers Report, once
	// a session and then once with PID 0.
	SessionStatus struct {
		Seq    uint64 // of the Report
		PID    uint32 // of the worker
		Idle   uint64 // milliseconds since the last sign of the client
		Calls  uint32 // running in the worker
		Stream bool   // the client listens
		Label  string // a short part of the session's id
	}

	// Spawned answers SpawnRequest, with four descriptors: the write end of
	// stdin, the read ends of stdout and stderr, the pidfd.
	Spawned struct {
		Seq, Handle uint64
		PID, UID    uint32
		Lease       int64 // Unix milliseconds; 0: never ends
		Account     string
	}

	// Refused answers SpawnRequest and RenewRequest.
	Refused struct {
		Seq        uint64
		Kind       Kind
		RetryAfter uint32 // milliseconds
		Reason     string // for the log
	}

	// Renewed answers RenewRequest.
	Renewed struct {
		Seq   uint64
		Lease int64 // Unix milliseconds
	}

	// Exited says that a worker's whole tree is gone. It comes once a handle.
	Exited struct {
		Handle uint64
		Code   int32 // -1 when a signal ended it
		Signal uint32
		Reason string // why the monitor ended it; empty when it did not
	}

	// Report asks for a SessionStatus of each session.
	Report struct{ Seq uint64 }

	// Plan brings one descriptor: the front end's part of a newer configuration.
	Plan struct{}

	// Cert brings two descriptors: certificate and key, open for reading.
	Cert struct{}
)

// Type implements Frame.
func (Hello) Type() Type { return TypeHello }

// Type implements Frame.
func (SpawnRequest) Type() Type { return TypeSpawn }

// Type implements Frame.
func (RenewRequest) Type() Type { return TypeRenew }

// Type implements Frame.
func (KillRequest) Type() Type { return TypeKill }

// Type implements Frame.
func (InterruptRequest) Type() Type { return TypeInterrupt }

// Type implements Frame.
func (SessionStatus) Type() Type { return TypeStatus }

// Type implements Frame.
func (Report) Type() Type { return TypeReport }

// Type implements Frame.
func (Plan) Type() Type { return TypePlan }

// Type implements Frame.
func (Spawned) Type() Type { return TypeSpawned }

// Type implements Frame.
func (Refused) Type() Type { return TypeRefused }

// Type implements Frame.
func (Renewed) Type() Type { return TypeRenewed }

// Type implements Frame.
func (Exited) Type() Type { return TypeExited }

// Type implements Frame.
func (Cert) Type() Type { return TypeCert }

var be = binary.BigEndian

func appendString(b []byte, s string) []byte {
	return append(be.AppendUint16(b, uint16(len(s))), s...)
}

func (f Hello) append(b []byte) []byte { return be.AppendUint16(b, f.Version) }

func (f SpawnRequest) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	b = be.AppendUint16(b, f.Server)
	return appendString(b, f.Token)
}

func (f RenewRequest) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	b = be.AppendUint64(b, f.Handle)
	return appendString(b, f.Token)
}

func (f KillRequest) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	return be.AppendUint64(b, f.Handle)
}

func (f InterruptRequest) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	return be.AppendUint64(b, f.Handle)
}

func (f SessionStatus) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	b = be.AppendUint32(b, f.PID)
	b = be.AppendUint64(b, f.Idle)
	b = be.AppendUint32(b, f.Calls)
	stream := byte(0)
	if f.Stream {
		stream = 1
	}
	return appendString(append(b, stream), f.Label)
}

func (f Spawned) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	b = be.AppendUint64(b, f.Handle)
	b = be.AppendUint32(b, f.PID)
	b = be.AppendUint32(b, f.UID)
	b = be.AppendUint64(b, uint64(f.Lease))
	return appendString(b, f.Account)
}

func (f Refused) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	b = append(b, byte(f.Kind))
	b = be.AppendUint32(b, f.RetryAfter)
	return appendString(b, f.Reason)
}

func (f Renewed) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Seq)
	return be.AppendUint64(b, uint64(f.Lease))
}

func (f Exited) append(b []byte) []byte {
	b = be.AppendUint64(b, f.Handle)
	b = be.AppendUint32(b, uint32(f.Code))
	b = be.AppendUint32(b, f.Signal)
	return appendString(b, f.Reason)
}

func (f Cert) append(b []byte) []byte { return b }

func (f Report) append(b []byte) []byte { return be.AppendUint64(b, f.Seq) }

func (f Plan) append(b []byte) []byte { return b }

// Encode returns the frame's bytes. It fails on what the parsers would refuse.
func Encode(f Frame) ([]byte, error) {
	if err := check(f); err != nil {
		return nil, fmt.Errorf("encode %v: %w", f.Type(), err)
	}
	return f.append([]byte{byte(f.Type())}), nil
}

// ParseRequest reads a frame of the front end: Hello, SpawnRequest, RenewRequest,
// KillRequest, InterruptRequest or SessionStatus. The error never holds bytes of the frame.
func ParseRequest(b []byte) (Frame, error) {
	return parse(b, func(t Type, d *decoder) Frame {
		switch t {
		case TypeHello:
			return Hello{Version: d.uint16()}
		case TypeSpawn:
			return SpawnRequest{Seq: d.uint64(), Server: d.uint16(), Token: d.string()}
		case TypeRenew:
			return RenewRequest{Seq: d.uint64(), Handle: d.uint64(), Token: d.string()}
		case TypeKill:
			return KillRequest{Seq: d.uint64(), Handle: d.uint64()}
		case TypeInterrupt:
			return InterruptRequest{Seq: d.uint64(), Handle: d.uint64()}
		case TypeStatus:
			return SessionStatus{
				Seq: d.uint64(), PID: d.uint32(), Idle: d.uint64(), Calls: d.uint32(), Stream: d.bool(), Label: d.string(),
			}
		}
		return nil
	})
}

// ParseReply reads a frame of the monitor: Spawned, Refused, Renewed, Exited, Cert,
// Report or Plan. The error never holds bytes of the frame.
func ParseReply(b []byte) (Frame, error) {
	return parse(b, func(t Type, d *decoder) Frame {
		switch t {
		case TypeSpawned:
			return Spawned{
				Seq: d.uint64(), Handle: d.uint64(), PID: d.uint32(), UID: d.uint32(),
				Lease: int64(d.uint64()), Account: d.string(),
			}
		case TypeRefused:
			return Refused{Seq: d.uint64(), Kind: Kind(d.byte()), RetryAfter: d.uint32(), Reason: d.string()}
		case TypeRenewed:
			return Renewed{Seq: d.uint64(), Lease: int64(d.uint64())}
		case TypeExited:
			return Exited{Handle: d.uint64(), Code: int32(d.uint32()), Signal: d.uint32(), Reason: d.string()}
		case TypeCert:
			return Cert{}
		case TypeReport:
			return Report{Seq: d.uint64()}
		case TypePlan:
			return Plan{}
		}
		return nil
	})
}

func parse(b []byte, fields func(Type, *decoder) Frame) (Frame, error) {
	switch {
	case len(b) == 0:
		return nil, errors.New("parse frame: empty")
	case len(b) > MaxFrame:
		return nil, errors.New("parse frame: larger than 24 KiB")
	}
	d := &decoder{rest: b[1:]}
	t := Type(b[0])
	f := fields(t, d)
	switch {
	case f == nil:
		return nil, fmt.Errorf("parse frame: unlisted type %#02x", b[0])
	case d.short:
		return nil, fmt.Errorf("parse %v: too short", t)
	case len(d.rest) > 0:
		return nil, fmt.Errorf("parse %v: %d bytes too many", t, len(d.rest))
	}
	if err := check(f); err != nil {
		return nil, fmt.Errorf("parse %v: %w", t, err)
	}
	return f, nil
}

// check is what holds for every frame, sent or received.
func check(f Frame) error {
	switch f := f.(type) {
	case Hello:
		if f.Version != ProtocolVersion {
			return errors.New("unknown protocol version")
		}
	case SpawnRequest:
		return checkToken(f.Token, true)
	case RenewRequest:
		return checkToken(f.Token, false)
	case SessionStatus:
		switch {
		case f.PID > 1<<30 || f.PID == 0 && (f.Label != "" || f.Idle != 0 || f.Calls != 0 || f.Stream):
			return errors.New("impossible pid")
		case len(f.Label) > maxLabel:
			return errors.New("label too long")
		}
		return checkText(f.Label)
	case Spawned:
		switch {
		case f.PID == 0 || f.PID > 1<<30:
			return errors.New("impossible pid")
		case f.UID == 0 || f.UID == ^uint32(0):
			return errors.New("forbidden uid")
		case f.Lease < 0:
			return errors.New("lease before 1970")
		case f.Account == "" || len(f.Account) > MaxAccount:
			return errors.New("account name empty or too long")
		}
		return checkText(f.Account)
	case Refused:
		if f.Kind > KindRefused {
			return errors.New("unknown kind")
		}
		return checkText(f.Reason)
	case Renewed:
		if f.Lease <= 0 {
			return errors.New("lease before 1970")
		}
	case Exited:
		if f.Code < -1 || f.Code > 255 || f.Signal > 64 || (f.Code == -1) != (f.Signal != 0) {
			return errors.New("impossible status")
		}
		return checkText(f.Reason)
	}
	return nil
}

func checkToken(t string, mayBeEmpty bool) error {
	switch {
	case len(t) > MaxToken:
		return errors.New("token longer than 16 KiB")
	case t == "" && !mayBeEmpty:
		return errors.New("no token")
	}
	return nil
}

func checkText(s string) error {
	switch {
	case len(s) > MaxReason:
		return errors.New("text longer than 1 KiB")
	case !utf8.ValidString(s):
		return errors.New("text is not UTF-8")
	}
	return nil
}

// decoder takes fixed fields off a frame. After it ran short it returns zeroes.
type decoder struct {
	rest  []byte
	short bool
}

var zeroes [8]byte

func (d *decoder) take(n int) []byte {
	if d.short || len(d.rest) < n {
		d.short = true
		return zeroes[:min(n, len(zeroes))]
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// bool reads 0 or 1; anything else is like a frame that is too short.
func (d *decoder) bool() bool {
	b := d.byte()
	d.short = d.short || b > 1
	return b == 1
}

func (d *decoder) byte() byte     { return d.take(1)[0] }
func (d *decoder) uint16() uint16 { return be.Uint16(d.take(2)) }
func (d *decoder) uint32() uint32 { return be.Uint32(d.take(4)) }
func (d *decoder) uint64() uint64 { return be.Uint64(d.take(8)) }
func (d *decoder) string() string { return string(d.take(int(d.uint16()))) }

// UnixMilli is a lease on the wire: 0 for the zero time.
func UnixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMilli is the lease of a frame: the zero time for 0.
func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
