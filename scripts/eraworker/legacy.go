package main

import (
	"encoding/json"
	"os"
	"strconv"
)

// legacyClient takes what a legacy server does not know, and the tools that the
// other server can't do by asking its client.
func (w *wrapper) legacyClient(_ []byte, m message) bool {
	if m.Method == "" {
		return w.answered(m)
	}
	if m.ID == nil {
		return false
	}
	if _, modern := m.Params.Meta["io.modelcontextprotocol/protocolVersion"]; modern || m.Method == "server/discover" || m.Method == "subscriptions/listen" {
		w.refuse(m.ID, -32601, "method not found", nil)
		return true
	}
	if m.Method != "tools/call" {
		return false
	}
	tool, ok := map[string]func(message){
		"test_missing_capability":                 w.missingCapability,
		"test_input_required_result_capabilities": w.capabilities,
		"test_input_required_result_multi_round":  w.multiRound,
	}[m.Params.Name]
	if ok {
		go tool(m)
	}
	return ok
}

// answered gives the front end's answer to a question of ours to who waits for it.
func (w *wrapper) answered(m message) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.asked[string(m.ID)]
	if ok {
		delete(w.asked, string(m.ID))
		c <- m
	}
	return ok
}

// ask asks the client; ok: it answered with a result.
func (w *wrapper) ask(method string, params any) (result json.RawMessage, ok bool) {
	w.mu.Lock()
	w.last++
	id := "eraworker-" + strconv.Itoa(w.last)
	c := make(chan message, 1)
	w.asked[`"`+id+`"`] = c
	w.mu.Unlock()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		panic(err) // params are made of maps
	}
	w.write(os.Stdout, b)
	m := <-c
	return m.Result, m.Result != nil
}

func form(message, field, kind string) map[string]any {
	return map[string]any{"message": message, "requestedSchema": map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": kind}}, "required": []string{field},
	}}
}

func prompt(s string) map[string]any {
	return map[string]any{"maxTokens": 50, "messages": []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": s}}}}
}

// missingCapability needs sampling, and fails without.
func (w *wrapper) missingCapability(m message) {
	if _, ok := w.ask("sampling/createMessage", prompt("anything")); !ok {
		w.refuse(m.ID, -32603, "sampling failed", nil)
		return
	}
	w.answer(m.ID, text("done"))
}

// capabilities asks for whatever the client can give, and does without the rest.
func (w *wrapper) capabilities(m message) {
	got := 0
	for _, q := range []struct {
		method string
		params any
	}{
		{"elicitation/create", form("What is your name?", "name", "string")},
		{"sampling/createMessage", prompt("Generate a short greeting")},
		{"roots/list", map[string]any{}},
	} {
		if _, ok := w.ask(q.method, q.params); ok {
			got++
		}
	}
	w.answer(m.ID, text("%d answers", got))
}

// multiRound asks twice, the second time for more.
func (w *wrapper) multiRound(m message) {
	content := func(result json.RawMessage, field string) any {
		var r struct{ Content map[string]any }
		json.Unmarshal(result, &r) // nothing is an answer too
		return r.Content[field]
	}
	name, _ := w.ask("elicitation/create", form("Step 1: What is your name?", "name", "string"))
	color, _ := w.ask("elicitation/create", form("Step 2: What is your favorite color?", "color", "string"))
	w.answer(m.ID, text("Multi-round complete: %v likes %v", content(name, "name"), content(color, "color")))
}

// legacyServer gives the one question that the suite calls by name its key.
func (w *wrapper) legacyServer(line []byte, m message) bool {
	if m.Method != "elicitation/create" || m.Params.Message != "What is your name?" {
		return false
	}
	var whole map[string]json.RawMessage
	var p map[string]any
	if json.Unmarshal(line, &whole) != nil || json.Unmarshal(whole["params"], &p) != nil {
		return false
	}
	p["_meta"] = map[string]any{"gatehouse/inputKey": "user_name"}
	var err error
	if whole["params"], err = json.Marshal(p); err != nil {
		return false
	}
	b, err := json.Marshal(whole)
	if err != nil {
		return false
	}
	w.write(os.Stdout, b)
	return true
}
