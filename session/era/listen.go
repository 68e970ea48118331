package era

import (
	"slices"
	"strings"

	"gatehouse/session/jsonrpc"
)

// Filter is what a subscription is for (2026-07-28, basic/patterns/subscriptions).
type Filter struct {
	Tools, Prompts, Resources bool
	URIs                      []string
}

// maxURIs bounds the resources of one subscription.
const maxURIs = 256

// ParseFilter reads the filter of a subscriptions/listen request. The error is a
// *jsonrpc.Error.
func ParseFilter(m *jsonrpc.Message) (Filter, error) {
	object := jsonrpc.Value(m.Params.Of(m.Raw), "notifications")
	if len(object) == 0 || object[0] != '{' {
		return Filter{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Text: `subscriptions/listen needs an object "notifications"`}
	}
	var f Filter
	for name, value := range jsonrpc.Members(object) {
		switch name {
		case "toolsListChanged":
			f.Tools = string(value) == "true"
		case "promptsListChanged":
			f.Prompts = string(value) == "true"
		case "resourcesListChanged":
			f.Resources = string(value) == "true"
		case "resourceSubscriptions":
			for element, err := range jsonrpc.Batch(value) {
				uri := jsonrpc.Unquote(element)
				if err != nil || uri == nil {
					return Filter{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Text: `"resourceSubscriptions" must be an array of strings`}
				}
				f.URIs = append(f.URIs, string(uri))
			}
		}
	}
	if len(f.URIs) > maxURIs {
		return Filter{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Text: "too many resources in one subscription"}
	}
	slices.Sort(f.URIs)
	f.URIs = slices.Compact(f.URIs)
	return f, nil
}

// Of is the part of the filter that a server can honour.
func (f Filter) Of(s Server) Filter {
	f.Tools = f.Tools && s.Has("tools", "listChanged")
	f.Prompts = f.Prompts && s.Has("prompts", "listChanged")
	f.Resources = f.Resources && s.Has("resources", "listChanged")
	if !s.Has("resources", "subscribe") {
		f.URIs = nil
	}
	return f
}

// And is f without the lists that g, what the worker agreed to, does not have; nil is
// nothing.
func (f Filter) And(g *Filter) Filter {
	if g == nil {
		g = new(Filter)
	}
	f.Tools, f.Prompts, f.Resources = f.Tools && g.Tools, f.Prompts && g.Prompts, f.Resources && g.Resources
	return f
}

// All is everything that a server can tell, with these resources.
func All(s Server, uris []string) Filter { return Filter{true, true, true, uris}.Of(s) }

// Empty reports whether the filter is for nothing.
func (f Filter) Empty() bool { return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 }

// object is the filter as it stands in messages.
func (f Filter) object() []byte {
	var more []jsonrpc.Member
	add := func(name string, on bool) {
		if on {
			more = append(more, jsonrpc.Member{Name: name, Value: []byte("true")})
		}
	}
	add("toolsListChanged", f.Tools)
	add("promptsListChanged", f.Prompts)
	add("resourcesListChanged", f.Resources)
	if len(f.URIs) > 0 {
		list := []byte("[")
		for i, uri := range f.URIs {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, jsonrpc.Quote(uri)...)
		}
		more = append(more, jsonrpc.Member{Name: "resourceSubscriptions", Value: append(list, ']')})
	}
	return jsonrpc.AppendObject(nil, nil, nil, more...)
}

// Acknowledge is the first message of a subscription.
func (f Filter) Acknowledge(id []byte) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"` + metaSubscription + `":` + string(id) +
		`},"notifications":` + string(f.object()) + `}}`)
}

// Closed is the response that ends a subscription gracefully.
func Closed(id []byte) []byte {
	return Result(id, []byte(`{"resultType":"complete","_meta":{"`+metaSubscription+`":`+string(id)+`}}`))
}

// Listen is the front end's own subscription at a modern worker.
func (f Filter) Listen() []byte {
	return []byte(`{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{"_meta":{"` + metaVersion + `":"` + Modern + `","` +
		metaClient + `":` + ownInfo + `,"` + metaCapabilities + `":{}},"notifications":` + string(f.object()) + `}}`)
}

// Change is one thing that a worker says has changed.
type Change struct {
	Kind ChangeKind
	URI  string // of a resource
}

// ChangeKind is the closed list of them. The zero value is none.
type ChangeKind uint8

// The kinds of changes.
const (
	NoChange ChangeKind = iota
	ToolsChanged
	PromptsChanged
	ResourcesChanged
	ResourceUpdated
	Acknowledged // a modern worker's answer to our own subscription
)

// Changed reads a notification.
func Changed(m *jsonrpc.Message) Change {
	switch string(m.Method()) {
	case "notifications/tools/list_changed":
		return Change{Kind: ToolsChanged}
	case "notifications/prompts/list_changed":
		return Change{Kind: PromptsChanged}
	case "notifications/resources/list_changed":
		return Change{Kind: ResourcesChanged}
	case "notifications/resources/updated":
		return Change{ResourceUpdated, string(jsonrpc.Unquote(m.URI.Of(m.Raw)))}
	case "notifications/subscriptions/acknowledged":
		return Change{Kind: Acknowledged}
	}
	return Change{}
}

// Wants reports whether the filter lets a change through. A resource below one that
// was subscribed to counts (2025-11-25, server/resources, "Subscriptions").
func (f Filter) Wants(c Change) bool {
	switch c.Kind {
	case ToolsChanged:
		return f.Tools
	case PromptsChanged:
		return f.Prompts
	case ResourcesChanged:
		return f.Resources
	case ResourceUpdated:
		return slices.ContainsFunc(f.URIs, func(uri string) bool {
			return uri == c.URI || strings.HasPrefix(c.URI, strings.TrimSuffix(uri, "/")+"/")
		})
	}
	return false
}

// Tag is a worker's notification with the id of a client's subscription.
func Tag(m *jsonrpc.Message, id []byte) []byte {
	return retag(m, jsonrpc.Member{Name: metaSubscription, Value: id})
}

// Untag is a worker's notification for a client without subscriptions.
func Untag(m *jsonrpc.Message) []byte { return retag(m) }

func retag(m *jsonrpc.Message, more ...jsonrpc.Member) []byte {
	meta := jsonrpc.AppendObject(nil, m.Meta.Of(m.Raw), func(name []byte) bool { return string(name) == metaSubscription }, more...)
	var added []jsonrpc.Member
	if len(meta) > len("{}") {
		added = []jsonrpc.Member{{Name: "_meta", Value: meta}}
	}
	params := jsonrpc.AppendObject(nil, m.Params.Of(m.Raw), func(name []byte) bool { return string(name) == "_meta" }, added...)
	out := withParams(m, params)
	jsonrpc.FlattenLines(out)
	return out
}
