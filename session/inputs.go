package session

import (
	"gatehouse/session/bridge"
	"gatehouse/session/jsonrpc"
)

// inputs are kinds of questions, as bits.
type inputs uint8

const (
	canSample inputs = 1 << iota
	canRoots
	canForm
	canURL
)

// inputsOf reads the capabilities of a client. Elicitation without modes is that of
// forms.
func inputsOf(capabilities []byte) (can inputs) {
	declared := bridge.DeclaredIn(capabilities)
	if declared&bridge.CanSample != 0 {
		can |= canSample
	}
	if declared&bridge.CanListRoots != 0 {
		can |= canRoots
	}
	if declared&bridge.CanElicit != 0 {
		modes := jsonrpc.Value(capabilities, "elicitation")
		if jsonrpc.Value(modes, "url") != nil {
			can |= canURL
		}
		if jsonrpc.Value(modes, "form") != nil || can&canURL == 0 {
			can |= canForm
		}
	}
	return can
}

// required is the requiredCapabilities object of these.
func (i inputs) required() []byte {
	var more []jsonrpc.Member
	if i&canSample != 0 {
		more = append(more, jsonrpc.Member{Name: "sampling", Value: []byte("{}")})
	}
	if i&canRoots != 0 {
		more = append(more, jsonrpc.Member{Name: "roots", Value: []byte("{}")})
	}
	switch {
	case i&canURL != 0 && i&canForm != 0:
		more = append(more, jsonrpc.Member{Name: "elicitation", Value: []byte(`{"form":{},"url":{}}`)})
	case i&canURL != 0:
		more = append(more, jsonrpc.Member{Name: "elicitation", Value: []byte(`{"url":{}}`)})
	case i&canForm != 0:
		more = append(more, jsonrpc.Member{Name: "elicitation", Value: []byte("{}")})
	}
	return jsonrpc.AppendObject(nil, nil, nil, more...)
}

// toBridge are the capabilities of the bridge that let these kinds of questions through.
func (i inputs) toBridge() (c bridge.Capability) {
	if i&canSample != 0 {
		c |= bridge.CanSample
	}
	if i&canRoots != 0 {
		c |= bridge.CanListRoots
	}
	if i&(canForm|canURL) != 0 {
		c |= bridge.CanElicit
	}
	return c
}

// fromBridge are the kinds of questions that a capability of the bridge stands for.
func fromBridge(c bridge.Capability) (i inputs) {
	if c&bridge.CanSample != 0 {
		i |= canSample
	}
	if c&bridge.CanListRoots != 0 {
		i |= canRoots
	}
	if c&bridge.CanElicit != 0 {
		i |= canForm
	}
	return i
}
