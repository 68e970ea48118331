package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stubborn is a grandchild that wants to stay.
const stubborn = `trap "" TERM HUP; while :; do sleep 1; done`

// work is the worker: a stdio MCP server whose tools misbehave.
func work() {
	var mu sync.Mutex
	say := func(format string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", a...)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name            string
				ProtocolVersion string
				Arguments       struct {
					Text string
					MS   int
				}
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		answer := func() {
			text, _ := json.Marshal(m.Params.Arguments.Text)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, m.ID, text)
		}
		wait := func() { time.Sleep(time.Duration(m.Params.Arguments.MS) * time.Millisecond) }
		switch m.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"chaos","version":"1"}}}`, m.ID, m.Params.ProtocolVersion)
			continue
		case "tools/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`, m.ID)
			continue
		case "tools/call":
		default:
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			continue
		}
		switch m.Params.Name {
		case "echo":
			answer()
		case "slow":
			go func() { wait(); answer() }()
		case "block": // reads nothing meanwhile
			wait()
			answer()
		case "stop":
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			answer()
		case "deaf": // for ever, and SIGTERM does not help
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
			select {}
		case "die":
			wait()
			os.Exit(3)
		case "flood":
			for i := range max(3000, m.Params.Arguments.MS) {
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d %s"}}`, i, strings.Repeat("x", 1000))
			}
			answer()
		case "garbage":
			say("this is no message")
		case "twice":
			answer()
			answer()
		case "changed":
			say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			answer()
		case "fork": // a grandchild that wants to stay
			c := exec.Command("/bin/sh", "-c", stubborn, m.Params.Arguments.Text)
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			c.Start()
			answer()
		}
	}
}
