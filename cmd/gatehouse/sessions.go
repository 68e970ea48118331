package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/printable"
	"gatehouse/cmd/internal/conf"
)

// operatorLimit is how long a server may take to answer.
const operatorLimit = 15 * time.Second

type sessionsCmd struct {
	Socket string          `placeholder:"FILE" help:"The server's socket (operators.socket). Default: the only one there is." env:"MCP_OPERATORS_SOCKET"`
	Port   int             `help:"The server's port, when several run here."`
	List   sessionsListCmd `cmd:"" default:"1" help:"List sessions (the default)."`
	End    sessionsEndCmd  `cmd:"" help:"End sessions."`
}

type sessionsListCmd struct {
	JSON bool `name:"json" help:"One JSON object a line."`
}

type sessionsEndCmd struct {
	Account string `help:"Of this account."`
	Subject string `help:"Of this subject (sub)."`
	Issuer  string `help:"Of this issuer."`
	Client  string `help:"Of this client."`
	ID      string `name:"id" help:"The one with this ID, or all with this SESSION: shared for the workers of modern clients."`
}

// Help is shown by "gatehouse sessions --help".
func (sessionsCmd) Help() string {
	return `Speaks with a running server over its local socket, which root, whoever started the server and the operators' group may use (operators.group).

"end" ends the workers that fit all that is given, and with them their sessions; calls under way are answered with an error. It keeps nobody out: whoever still has a valid token can begin anew. Disable the account or the user first.

Examples:

	gatehouse sessions
	gatehouse sessions end --account alice
	gatehouse sessions end --id w12
	gatehouse sessions end --id shared    # all workers of modern clients, who have no sessions`
}

// operatorRequest and the two that follow are the wire format of session/monitor, from
// which this command must not import.
type operatorRequest struct {
	Op      string `json:"op"`
	Account string `json:"account,omitempty"`
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	Client  string `json:"client,omitempty"`
	ID      string `json:"id,omitempty"`
}

type operatorWorker struct {
	ID, Account, Issuer, Subject, Client, Server string
	PID                                          int
	Since, Lease                                 time.Time
	Memory                                       int64
	Ending, Warm, Known, Stream                  bool
	Session                                      string
	IdleMS                                       int64 `json:"idle_ms"`
	Calls                                        int
}

type operatorAnswer struct {
	Done  *int
	Error string
}

// Run lists the sessions.
func (cmd *sessionsListCmd) Run(s streams, parent *sessionsCmd) error {
	var list []operatorWorker
	_, err := parent.ask(operatorRequest{Op: "list"}, func(line []byte) error {
		if cmd.JSON {
			_, err := s.out.Write(line)
			return err
		}
		var w operatorWorker
		if err := json.Unmarshal(line, &w); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		list = append(list, w)
		return nil
	})
	if err != nil || cmd.JSON {
		return err
	}
	out := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "ID\tSESSION\tACCOUNT\tSUBJECT\tCLIENT\tSERVER\tAGE\tIDLE\tCALLS\tSTREAM\tPID\tMEMORY\tLEASE")
	now := time.Now()
	for i := range list {
		fmt.Fprintln(out, strings.Join(list[i].row(now), "\t"))
	}
	if len(list) == 0 {
		fmt.Fprintln(s.err, "no sessions")
		return nil
	}
	return out.Flush()
}

// maxCell is how many bytes of a value the table shows: as many as a client's name has.
const maxCell = 512

// row is a line of the table. What the front end does not say is a question mark.
func (w *operatorWorker) row(now time.Time) []string {
	session, idle, calls, stream := "?", "?", "?", "?"
	if w.Known {
		session, idle, calls = cmp.Or(w.Session, "-"), ago(time.Duration(w.IdleMS)*time.Millisecond), fmt.Sprint(w.Calls)
		stream = map[bool]string{true: "yes", false: "no"}[w.Stream]
	}
	if w.Warm {
		session, idle, calls, stream = "(warm)", "-", "-", "-"
	}
	lease := "-"
	if !w.Lease.IsZero() {
		lease = ago(w.Lease.Sub(now))
	}
	if w.Ending {
		lease = "ending"
	}
	row := []string{
		w.ID, session, w.Account, cmp.Or(w.Subject, "-"), cmp.Or(w.Client, "-"), w.Server, ago(now.Sub(w.Since)), idle, calls, stream,
		fmt.Sprint(w.PID), fmt.Sprintf("%.1f MiB", float64(w.Memory)/(1<<20)), lease,
	}
	for i := range row {
		row[i] = printable.Text(row[i], maxCell)
	}
	return row
}

// ago is a time to the second, as people write it.
func ago(d time.Duration) string { return conf.FormatDuration(max(d, 0).Truncate(time.Second)) }

// Run ends sessions.
func (cmd *sessionsEndCmd) Run(s streams, parent *sessionsCmd) error {
	q := operatorRequest{"end", cmd.Account, cmd.Subject, cmd.Issuer, cmd.Client, cmd.ID}
	if q == (operatorRequest{Op: "end"}) {
		fmt.Fprintln(s.err, "gatehouse: end which sessions? --account, --subject, --issuer, --client or --id says so")
		return exitStatus(exitUsage)
	}
	n, err := parent.ask(q, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%d ended\n", n)
	if n == 0 {
		return exitStatus(exitFailed)
	}
	return nil
}

// ask sends one request and passes the lines of the answer on, without the last,
// which says how many sessions it was about.
func (cmd *sessionsCmd) ask(q operatorRequest, line func([]byte) error) (int, error) {
	path, err := cmd.socket(socketPlaces())
	if err != nil {
		return 0, err
	}
	c, err := net.DialTimeout("unix", path, operatorLimit)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return 0, notForUs(path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return 0, fmt.Errorf("no server answers at %s", path)
	case err != nil:
		return 0, fmt.Errorf("ask the server: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(operatorLimit)); err != nil {
		return 0, err
	}
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return 0, fmt.Errorf("ask the server: %w", err)
	}
	in := bufio.NewReader(c)
	for {
		b, err := in.ReadBytes('\n')
		if err != nil {
			return 0, fmt.Errorf("read the server's answer: %w", err)
		}
		var a operatorAnswer
		if err := json.Unmarshal(b, &a); err != nil {
			return 0, fmt.Errorf("read the server's answer: %w", err)
		}
		switch {
		case a.Error != "":
			return 0, errors.New(a.Error)
		case a.Done != nil:
			return *a.Done, nil
		}
		if err := line(b); err != nil {
			return 0, err
		}
	}
}

// socketPlaces are patterns of where servers put their sockets by default; the star
// is the port.
func socketPlaces() []string {
	places := []string{filepath.Join(conf.SocketRoot, "*.sock")}
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		places = append(places, filepath.Join(d, "gatehouse-*.sock"))
	}
	if d := conf.StateDir(os.Geteuid() == 0, os.Getenv); d != "" {
		places = append(places, filepath.Join(d, "operators-*.sock"))
	}
	return places
}

// deserted reports whether nobody listens on a socket: a server that could not remove
// it has left it, as when the power fails.
func deserted(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// socket is the one that was named, or the only one there is in these places that
// may be used.
func (cmd *sessionsCmd) socket(places []string) (string, error) {
	switch cmd.Socket {
	case "":
	case "none":
		return "", errors.New("operators.socket is none (MCP_OPERATORS_SOCKET): a server that is started like this has no socket; --socket names another server's")
	default:
		return cmd.Socket, nil
	}
	var found, closed []string
	for _, p := range places {
		if cmd.Port != 0 {
			p = strings.Replace(p, "*", fmt.Sprint(cmd.Port), 1)
		}
		list, _ := filepath.Glob(p) // the patterns are sound
		for _, f := range list {
			if unix.Access(f, unix.W_OK) == nil {
				found = append(found, f)
			} else {
				closed = append(closed, f)
			}
		}
	}
	if len(found) > 1 {
		found = slices.DeleteFunc(found, deserted)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("several servers run here; choose one with --socket or --port: %s", strings.Join(found, ", "))
	case len(closed) > 0:
		return "", notForUs(strings.Join(closed, ", "))
	case cmd.Port != 0:
		return "", fmt.Errorf("no server's socket was found for port %d; --socket names it (operators.socket), and without --port any server here is found", cmd.Port)
	}
	return "", errors.New("no server's socket was found; --socket names it (operators.socket)")
}

// notForUs words that the permissions of a socket keep us out.
func notForUs(path string) error {
	return fmt.Errorf("%s is not for this account: root, whoever started the server and the members of operators.group may use it", path)
}
