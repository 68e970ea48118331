// Command load is a bounded load generator for MCP front ends on loopback.
//
//	load -mode stdio -cmd ./worker -c 1 -d 5s                      direct stdio, one worker a client
//	load -mode http -url http://127.0.0.1:9/mcp -c 32 -d 5s -pid N  a front end; N is the root of its processes
//
// It prints one line of JSON. It refuses any host that is not loopback and
// stops by itself after at most 25 s.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxDuration = 25 * time.Second
	maxClients  = 1000
	maxFailures = 200 // of one client, after which it stops
)

// options are the command line.
type options struct {
	mode, cmd, url, tokenFile, version string
	clients, pid, payload              int
	duration                           time.Duration
	churn, idle                        bool
}

// client is one MCP client with a session of its own.
type client interface {
	open() error
	call(id int64) error
	close()
}

// text is the payload of every call.
var text string

func main() {
	log.SetFlags(0)
	log.SetPrefix("load: ")
	var o options
	flag.StringVar(&o.mode, "mode", "http", "stdio or http")
	flag.StringVar(&o.cmd, "cmd", "", "stdio: worker command")
	flag.StringVar(&o.url, "url", "", "http: endpoint")
	flag.StringVar(&o.tokenFile, "token-file", "", "file with a bearer token a line; client i uses line i mod n")
	flag.StringVar(&o.version, "version", "2025-06-18", "protocolVersion of initialize")
	flag.IntVar(&o.clients, "c", 1, "clients at the same time")
	flag.IntVar(&o.pid, "pid", 0, "root of the process tree whose CPU is counted")
	flag.IntVar(&o.payload, "payload", 64, "bytes of text in a call")
	flag.DurationVar(&o.duration, "d", 5*time.Second, "how long, at most 25s")
	flag.BoolVar(&o.churn, "churn", false, "open a session, call once, DELETE, again and again")
	flag.BoolVar(&o.idle, "idle", false, "open the sessions, call nothing, and say what a session costs in memory")
	flag.Parse()
	if err := o.check(); err != nil {
		log.Fatal(err)
	}
	text = strings.Repeat("x", o.payload)
	before := tree(o.pid)
	clients, err := open(o)
	if err != nil {
		log.Fatal(err)
	}
	var result map[string]any
	if o.idle {
		time.Sleep(o.duration)
		after := tree(o.pid)
		result = map[string]any{"c": o.clients, "processes": after.n,
			"memory_per_session": (after.memory - before.memory) / int64(o.clients)}
	} else {
		result = measure(o, clients)
	}
	for _, c := range clients {
		c.close()
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

func (o *options) check() error {
	o.duration = min(o.duration, maxDuration)
	o.clients = max(1, min(o.clients, maxClients))
	if o.mode != "http" {
		return nil
	}
	u, err := url.Parse(o.url)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not a loopback address", u.Hostname())
	}
	return nil
}

// open makes the clients, each with a session and one call behind it.
func open(o options) ([]client, error) {
	var tokens []string
	if o.tokenFile != "" {
		b, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, err
		}
		tokens = strings.Fields(string(b))
	}
	out := make([]client, o.clients)
	for i := range out {
		switch {
		case o.mode == "stdio":
			out[i] = &stdioClient{cmd: o.cmd, version: o.version}
		default:
			tok := ""
			if len(tokens) > 0 {
				tok = tokens[i%len(tokens)]
			}
			out[i] = newRaw(o, tok)
		}
		if o.churn {
			continue
		}
		if err := out[i].open(); err != nil {
			return nil, fmt.Errorf("open client %d: %w", i, err)
		}
		if err := out[i].call(int64(i) + 1); err != nil {
			return nil, fmt.Errorf("first call of client %d: %w", i, err)
		}
	}
	return out, nil
}

// measure runs the load and returns the figures.
func measure(o options, clients []client) map[string]any {
	var (
		ids    atomic.Int64
		errors atomic.Int64
		last   atomic.Value
		mu     sync.Mutex // guards lat
		lat    []time.Duration
		wg     sync.WaitGroup
	)
	ids.Store(1000)
	root := o.pid
	if o.mode == "stdio" {
		root = os.Getpid()
	}
	before := tree(root)
	start := time.Now()
	deadline := start.Add(o.duration)
	for _, c := range clients {
		wg.Go(func() {
			mine := make([]time.Duration, 0, 1<<14)
			for fails := 0; time.Now().Before(deadline) && fails < maxFailures; {
				t := time.Now()
				if err := once(o, c, ids.Add(1)); err != nil {
					errors.Add(1)
					last.Store(err.Error())
					fails++
					continue
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			lat = append(lat, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	after := tree(root)
	sort.Slice(lat, func(i, j int) bool { return lat[i] < lat[j] })
	out := map[string]any{"c": o.clients, "n": len(lat), "errors": errors.Load(), "rps": float64(len(lat)) / elapsed.Seconds(),
		"p50_us": quantile(lat, .5), "p99_us": quantile(lat, .99), "processes": after.n}
	if n := float64(len(lat)); n > 0 && root != 0 {
		out["front_cpu_us_per_call"] = (after.front - before.front) * 1e6 / n
		out["worker_cpu_us_per_call"] = (after.workers - before.workers) * 1e6 / n
	}
	if s, ok := last.Load().(string); ok {
		out["last_error"] = s
	}
	return out
}

func once(o options, c client, id int64) error {
	if !o.churn {
		return c.call(id)
	}
	if err := c.open(); err != nil {
		return err
	}
	err := c.call(id)
	c.close()
	return err
}

func quantile(lat []time.Duration, p float64) float64 {
	if len(lat) == 0 {
		return 0
	}
	return float64(lat[min(len(lat)-1, int(p*float64(len(lat))))].Nanoseconds()) / 1000
}

// initBody and callBody are the two requests that every client sends.
func initBody(version string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`, version)
}

func callBody(b []byte, id int64) []byte {
	return fmt.Appendf(b, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, id, text)
}

var initialized = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
