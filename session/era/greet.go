package era

import (
	"errors"
	"strconv"

	"gatehouse/session/jsonrpc"
)

// Server is what a worker says about itself, in whichever era. The fields are JSON;
// nil: it does not say.
type Server struct {
	Info, Capabilities, Instructions []byte
	Meta                             []byte // the member _meta of results that holds Info
	TTL                              int    // milliseconds for which a modern worker's answer holds
}

// The text of that member, but for the Info and a brace.
const (
	metaName  = `"_meta":`
	metaStart = metaName + `{`
	metaInfo  = metaStart + `"` + metaServer + `":`
)

// named is s with its Meta.
func (s Server) named() Server {
	if s.Info != nil {
		s.Meta = append(append([]byte(metaInfo), s.Info...), '}')
	}
	return s
}

// FromInitialize reads a legacy worker's result of initialize.
func FromInitialize(result []byte) Server {
	s := Server{Info: jsonrpc.Value(result, "serverInfo"), Capabilities: jsonrpc.Value(result, "capabilities"),
		Instructions: jsonrpc.Value(result, "instructions"), TTL: discoverTTL}
	// Tasks are another thing in the modern era.
	s.Capabilities = jsonrpc.AppendObject(nil, s.Capabilities, func(name []byte) bool { return string(name) == "tasks" })
	return s.named()
}

// FromDiscover reads a modern worker's response to server/discover. It fails when
// the worker does not serve our version.
func FromDiscover(m *jsonrpc.Message) (Server, error) {
	result := m.Result.Of(m.Raw)
	if !m.Result.Present() || result[0] != '{' {
		return Server{}, errors.New("server/discover was answered without a result")
	}
	if !lists(jsonrpc.Value(result, "supportedVersions"), Modern) {
		return Server{}, errors.New("the worker does not list " + Modern)
	}
	s := Server{Info: m.MetaServerInfo.Of(m.Raw), Capabilities: jsonrpc.Value(result, "capabilities"),
		Instructions: jsonrpc.Value(result, "instructions")}
	if ttl := m.TTL.Of(m.Raw); validTTL(ttl) {
		s.TTL, _ = strconv.Atoi(string(ttl)) // it was parsed once
	}
	return s.named(), nil
}

// lists reports whether a JSON array holds that string.
func lists(array []byte, want string) bool {
	for element, err := range jsonrpc.Batch(array) {
		if err != nil {
			return false
		}
		if string(jsonrpc.Unquote(element)) == want {
			return true
		}
	}
	return false
}

// Speaks reports whether a response to server/discover shows that the worker is to be
// spoken with in the modern era: a result, or an error that only a modern server
// gives (2026-07-28, basic/transports/stdio, "Backward Compatibility"). One that lists
// legacy versions alone is not.
func Speaks(m *jsonrpc.Message) bool {
	versions := jsonrpc.Value(m.Result.Of(m.Raw), "supportedVersions")
	if !m.Error.Present() {
		return versions != nil && (lists(versions, Modern) || !anyLegacy(versions))
	}
	switch string(jsonrpc.Value(m.Error.Of(m.Raw), "code")) {
	case strconv.Itoa(CodeVersion):
		return !anyLegacy(jsonrpc.Value(jsonrpc.Value(m.Error.Of(m.Raw), "data"), "supported"))
	case strconv.Itoa(CodeHeader), strconv.Itoa(CodeCapability):
		return true
	}
	return false
}

func anyLegacy(versions []byte) bool {
	return lists(versions, "2025-11-25") || lists(versions, "2025-06-18") || lists(versions, "2025-03-26") || lists(versions, "2024-11-05")
}

// Discover is the result of server/discover that clients get.
func (s Server) Discover() []byte {
	more := []jsonrpc.Member{
		{Name: "resultType", Value: []byte(`"complete"`)},
		{Name: "supportedVersions", Value: []byte(`["` + Modern + `"]`)},
		{Name: "capabilities", Value: orEmpty(s.Capabilities)},
	}
	if s.Instructions != nil {
		more = append(more, jsonrpc.Member{Name: "instructions", Value: s.Instructions})
	}
	more = append(more, jsonrpc.Member{Name: "ttlMs", Value: strconv.AppendInt(nil, int64(s.TTL), 10)}, jsonrpc.Member{Name: "cacheScope", Value: []byte(`"private"`)})
	if s.Info != nil {
		more = append(more, jsonrpc.Member{Name: "_meta", Value: jsonrpc.AppendObject(nil, nil, nil, jsonrpc.Member{Name: metaServer, Value: s.Info})})
	}
	return jsonrpc.AppendObject(nil, nil, nil, more...)
}

// Initialize is the result of initialize that legacy clients get.
func (s Server) Initialize(version string) []byte {
	info := s.Info
	if info == nil {
		info = []byte(`{"name":"unknown","version":"0"}`) // it must be there in this era
	}
	more := []jsonrpc.Member{
		{Name: "protocolVersion", Value: jsonrpc.Quote(version)},
		{Name: "capabilities", Value: orEmpty(s.Capabilities)},
		{Name: "serverInfo", Value: info},
	}
	if s.Instructions != nil {
		more = append(more, jsonrpc.Member{Name: "instructions", Value: s.Instructions})
	}
	return jsonrpc.AppendObject(nil, nil, nil, more...)
}

// Has reports whether the capability is there; of is a member of it that must be
// true, "" for none.
func (s Server) Has(capability, of string) bool {
	value := jsonrpc.Value(s.Capabilities, capability)
	if len(value) == 0 || value[0] != '{' {
		return false
	}
	return of == "" || string(jsonrpc.Value(value, of)) == "true"
}

func orEmpty(object []byte) []byte {
	if len(object) == 0 || object[0] != '{' {
		return []byte("{}")
	}
	return object
}

// probe is the method and params of Probe.
const probe = `"method":"server/discover","params":{"_meta":{"` + metaVersion + `":"` + Modern + `","` + metaClient + `":` + ownInfo + `,"` + metaCapabilities + `":{}}}`

// Liveness is the method and params of a request that every modern worker answers.
const Liveness = probe

// Probe is the server/discover request that the front end asks a worker with.
func Probe() []byte {
	return []byte(`{"jsonrpc":"2.0","id":"probe",` + probe + `}`)
}

// ownInfo is who the front end is to workers.
const ownInfo = `{"name":"gatehouse","version":"1"}`

// Handshake is the initialize request for a legacy worker that serves modern
// clients. It declares whatever any client could, since each says for itself what
// it can.
func Handshake(version string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":"handshake","method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}},"clientInfo":` + ownInfo + `}}`)
}

// Initialized is what follows the handshake.
func Initialized() []byte { return []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) }
