package issuertest

import (
	"io"
	"maps"
	"net/http"
	"strings"
)

// AnswerKeys has the key set's URL answered by h, and by the right answer again
// when h is nil.
func (i *Issuer) AnswerKeys(h http.Handler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = h
}

// AnswerDiscovery is AnswerKeys for the discovery document.
func (i *Issuer) AnswerDiscovery(h http.Handler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.discovery = h
}

// Document sets a member of the discovery document; nil removes it.
func (i *Issuer) Document(name string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	doc := maps.Clone(i.document)
	if doc[name] = value; value == nil {
		delete(doc, name)
	}
	i.document = doc
}

// KeysHeader sets a header of the key set's answer, "Cache-Control" for example.
func (i *Issuer) KeysHeader(name, value string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.header.Set(name, value)
}

// Down takes the issuer off the network: connections are refused until Up.
func (i *Issuer) Down() {
	i.server.CloseClientConnections()
	i.server.Close()
}

// Up brings the issuer back at the same address.
func (i *Issuer) Up() { i.listen(i.addr) }

// Status answers with a status and a body that nobody may repeat.
func Status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, Canary)
	})
}

// Canary is in every body that Status sends, and in what else a test wants to
// find again.
const Canary = "canary-of-the-issuer"

// Body answers with these bytes.
func Body(contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	})
}

// Huge answers with a JSON object of at least n bytes, without a length.
func Huge(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"keys":[],"x":"`)
		chunk := strings.Repeat("x", 64<<10)
		for sent := 0; sent < n; sent += len(chunk) {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		io.WriteString(w, `"}`)
	})
}

// Redirect answers with a redirect to another URL.
func Redirect(to string) http.Handler { return http.RedirectHandler(to, http.StatusFound) }

// Stall takes a request and never answers it.
func (i *Issuer) Stall() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-i.stop:
		}
	})
}
