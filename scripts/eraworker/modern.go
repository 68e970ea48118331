package main

import (
	"encoding/json"
)

// modernClient refuses what a modern server does not know, and asks in its way what
// the other server's tools would ask by requests of their own.
func (w *wrapper) modernClient(_ []byte, m message) bool {
	if m.ID == nil {
		return m.Method != "notifications/cancelled"
	}
	if m.Method == "initialize" {
		w.refuse(m.ID, -32022, "unsupported protocol version: this server speaks 2026-07-28", map[string]any{"supported": []string{"2026-07-28"}, "requested": "unknown"})
		return true
	}
	if _, modern := m.Params.Meta["io.modelcontextprotocol/protocolVersion"]; !modern {
		w.refuse(m.ID, -32602, "_meta lacks the protocol version", nil)
		return true
	}
	if m.Method != "tools/call" {
		return false
	}
	tool, ok := asking[m.Params.Name]
	if !ok {
		return false
	}
	response, answered := m.Params.Responses["question"]
	if !answered {
		w.answer(m.ID, map[string]any{"resultType": "input_required", "requestState": "asked", "inputRequests": map[string]any{
			"question": map[string]any{"method": tool.method, "params": tool.params(m.Params.Arguments)},
		}})
		return true
	}
	result := tool.result(response)
	result["resultType"] = "complete"
	w.answer(m.ID, result)
	return true
}

// asker is a tool that asks one question and says what the answer was.
type asker struct {
	method string
	params func(arguments map[string]any) map[string]any
	result func(response json.RawMessage) map[string]any
}

var asking = map[string]asker{
	"test_sampling": {"sampling/createMessage",
		func(a map[string]any) map[string]any { s, _ := a["prompt"].(string); return prompt(s) },
		func(r json.RawMessage) map[string]any {
			var answer struct{ Content struct{ Text string } }
			json.Unmarshal(r, &answer) // no text is said as such
			return text("LLM response: %s", answer.Content.Text)
		}},
	"test_elicitation": {"elicitation/create",
		func(a map[string]any) map[string]any {
			s, _ := a["message"].(string)
			return form(s, "username", "string")
		},
		elicited},
	"test_elicitation_sep1034_defaults": {"elicitation/create",
		func(map[string]any) map[string]any { return schema("Test defaults for primitives", defaults) }, elicited},
	"test_elicitation_sep1330_enums": {"elicitation/create",
		func(map[string]any) map[string]any { return schema("Test enum schemas", enums) }, elicited},
}

func elicited(r json.RawMessage) map[string]any {
	var answer struct {
		Action  string
		Content map[string]any
	}
	json.Unmarshal(r, &answer) // no action is said as such
	return text("Elicitation result: action=%s, content=%v", answer.Action, answer.Content)
}

func schema(message, properties string) map[string]any {
	return map[string]any{"message": message, "requestedSchema": map[string]any{"type": "object", "properties": json.RawMessage(properties)}}
}

const defaults = `{
	"name": {"type": "string", "default": "John Doe"},
	"age": {"type": "integer", "default": 30},
	"score": {"type": "number", "default": 95.5},
	"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
	"verified": {"type": "boolean", "default": true}
}`

const enums = `{
	"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
	"titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}]},
	"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
	"untitledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
	"titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "anyOf": [{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}, {"const": "value3", "title": "Third Choice"}]}}
}`
