package keys

// Health is what became of the last attempt to fetch an issuer's keys. It is a
// closed list with fixed texts: nothing that an issuer answers ever reaches a
// log line or a receiver through it. The zero value is no health at all and is
// refused by Parse.
type Health string

// The closed list.
const (
	HealthOK          Health = "ok"              // the set is the one just fetched
	HealthStarting    Health = "starting"        // no attempt has ended yet
	HealthRestored    Health = "restored"        // the set was saved by an earlier run
	HealthUnreachable Health = "unreachable"     // no connection
	HealthTimeout     Health = "timeout"         // no complete answer in time
	HealthTLS         Health = "tls"             // handshake or certificate refused
	HealthStatus      Health = "status"          // answered with a status other than 200
	HealthRedirect    Health = "redirect"        // sent us to another origin
	HealthTooLarge    Health = "too-large"       // more bytes than the cap
	HealthMalformed   Health = "malformed"       // not the document that was asked for
	HealthNoKey       Health = "no-usable-key"   // no set with a key that can verify a token
	HealthIssuer      Health = "issuer-mismatch" // discovery names another issuer
	HealthInsecure    Health = "insecure-url"    // discovery names a key set that is not https
	HealthMoved       Health = "moved"           // discovery names a key set at another origin than before
	HealthFile        Health = "file"            // the key set file can't be used
)

var healthTexts = map[Health]string{
	HealthOK:          "keys are current",
	HealthStarting:    "no attempt has ended yet",
	HealthRestored:    "keys of an earlier run, not refreshed yet",
	HealthUnreachable: "no connection",
	HealthTimeout:     "no complete answer in time",
	HealthTLS:         "TLS handshake refused",
	HealthStatus:      "answered with an error status",
	HealthRedirect:    "redirects to another origin are not followed",
	HealthTooLarge:    "answer larger than the cap",
	HealthMalformed:   "not the document that was asked for",
	HealthNoKey:       "no usable key set in the answer",
	HealthIssuer:      "the discovery document names another issuer",
	HealthInsecure:    "the discovery document names a key set that is not https",
	HealthMoved:       "the discovery document names a key set at another origin than before",
	HealthFile:        "the key set file can't be used",
}

// Valid reports whether h is on the list.
func (h Health) Valid() bool { _, ok := healthTexts[h]; return ok }

// Text is the fixed sentence of h, and "unknown" for what is not on the list.
func (h Health) Text() string {
	if t, ok := healthTexts[h]; ok {
		return t
	}
	return "unknown"
}
