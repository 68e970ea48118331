// Command load puts a bounded load on an MCP front end on loopback and measures it.
//
//	load MEASURE -url http://127.0.0.1:9/mcp -pid N -c 32 -d 5s   N is the root of the front end's processes
//	load calls -mode stdio -cmd ./worker -c 1 -d 5s               no front end: direct stdio, one worker a client
//	load churn -mode monitor -url http://127.0.0.1:9 -c 4 -d 5s   no HTTP: this program is there in place of gatehouse's front end
//
// Under the name gatehouse it takes the place of the front end ("gatehouse front"), and
// measures calls, churn and open with workers of the monitor's.
//
// The measures:
//
//	calls   tools/call by -c clients: CPU a call, latencies, calls a second
//	churn   open a session, call once, DELETE, again and again
//	open    latency of opening a session, one at a time with rests between
//	tokens  CPU and latency of a call with a remembered token and with one of -fresh-file,
//	        in one session or in each of -c
//	idle    memory of -c idle sessions with a connection of -kind
//	crowd   latency of calls beside none and beside -n idle sessions; how the opening of those went
//	left    how long the processes of -c sessions stay when their clients say nothing more
//	streams CPU of a message on each of -c open streams
//	large   peak memory while results of -result bytes pass
//	slow    latency of calls beside none and beside -n clients that do not read
//
// It prints one line of JSON, refuses any host that is not loopback, and ends a
// measurement after at most two minutes.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"gatehouse/session/spawn"
)

const (
	maxDuration = 2 * time.Minute
	maxClients  = 2000
)

// options are the command line.
type options struct {
	mode, cmd, url       string
	tokenFile, freshFile string
	version, kind, tool  string
	modern               bool
	clients, n           int
	tokens               []string      // of tokenFile
	monitor              *spawn.Client // in place of the front end
	pid                  int
	payload, result      int
	duration, patience   time.Duration
}

// figures are what a measurement found, by name.
type figures map[string]any

var measures = map[string]func(*options) (figures, error){
	"calls": measureCalls, "churn": measureChurn, "open": measureOpen, "tokens": measureTokens,
	"idle": measureIdle, "crowd": measureCrowd, "left": measureLeft,
	"streams": measureStreams, "large": measureLarge, "slow": measureSlow,
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("load: ")
	if len(os.Args) == 2 && os.Args[1] == "front" {
		log.Fatal(inPlaceOfFront())
	}
	if len(os.Args) < 2 || measures[os.Args[1]] == nil {
		log.Fatal("usage: load calls|churn|open|tokens|idle|crowd|left|streams|large|slow OPTIONS…")
	}
	o, err := parse(os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}
	measure := measures[os.Args[1]]
	if o.mode == "monitor" {
		measure = func(o *options) (figures, error) { return atMonitor(os.Args[1:], o) }
	}
	out, err := measure(o)
	if err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

func parse(args []string) (*options, error) {
	var o options
	f := flag.NewFlagSet("load", flag.ExitOnError)
	f.StringVar(&o.mode, "mode", "http", "stdio, http or monitor")
	f.StringVar(&o.cmd, "cmd", "", "stdio: worker command")
	f.StringVar(&o.url, "url", "", "http: endpoint")
	f.StringVar(&o.tokenFile, "token-file", "", "file with a bearer token a line; client i uses line i mod n")
	f.StringVar(&o.freshFile, "fresh-file", "", "tokens: file with tokens of the first one's subject that the front end has never seen")
	f.StringVar(&o.version, "version", "2025-06-18", "protocolVersion of initialize")
	f.BoolVar(&o.modern, "modern", false, "speak 2026-07-28: no session, every request says what it needs")
	f.StringVar(&o.tool, "tool", "", "tool to call without arguments; default: echo with -payload bytes")
	f.StringVar(&o.kind, "kind", "h1", "connection of an idle session: none, h1, h1-stream, h2 or h2-stream")
	f.IntVar(&o.clients, "c", 1, "clients at the same time")
	f.IntVar(&o.n, "n", 0, "idle or slow clients beside them")
	f.IntVar(&o.pid, "pid", 0, "root of the process tree that is measured")
	f.IntVar(&o.payload, "payload", 64, "bytes of text in a call")
	f.IntVar(&o.result, "result", 1<<20, "bytes of a large result")
	f.DurationVar(&o.duration, "d", 5*time.Second, "how long, at most two minutes")
	f.DurationVar(&o.patience, "patience", 30*time.Second, "how long the front end may take until it serves")
	f.Parse(args)
	o.duration = min(o.duration, maxDuration)
	o.clients = max(1, min(o.clients, maxClients))
	o.n = max(0, min(o.n, maxClients))
	if o.mode == "stdio" {
		o.pid = os.Getpid()
		return &o, nil
	}
	u, err := url.Parse(o.url)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is not a loopback address", u.Hostname())
	}
	return &o, nil
}

// lines reads a file of tokens; without a name there are none.
func lines(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	return strings.Fields(string(b)), err
}
