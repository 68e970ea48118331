package jsonrpc

import "errors"

// Parse reads one message of a client: nesting up to MaxDepth. On a refusal, a
// *Error, the returned Message still has the id when one was read.
func Parse(b []byte) (Message, error) { return Message{}, errors.New("parse message: not built yet") }
