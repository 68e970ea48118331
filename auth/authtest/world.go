package authtest

import (
	"time"

	"gatehouse/auth/token"
)

// World is what the cases are minted in: two issuers of RFC 9068 tokens and a
// Keycloak realm, all configured at one server.
type World struct {
	Issuer, Other, Realm *Issuer
	Now                  time.Time

	keys     map[string]*Key // Issuer's and Realm's keys by algorithm; both have all
	attacker *Key            // in nobody's key set
	hidden   map[string]*Key // published, but not fit to verify
}

// NewWorld makes the issuers and their keys; it takes about a second.
func NewWorld(now time.Time) *World {
	w := &World{
		Issuer: NewIssuer(IssuerURL), Other: NewIssuer(OtherURL), Realm: NewRealm(RealmURL),
		Now: now, keys: map[string]*Key{}, hidden: map[string]*Key{}, attacker: NewKey("RS256"),
	}
	rs, es := w.Issuer.Keys[0], NewKey("ES256")
	for _, alg := range []string{"RS384", "RS512", "PS256", "PS384", "PS512"} {
		w.keys[alg] = rs.As(alg)
	}
	w.keys["ES256"], w.keys["ES384"], w.keys["ES512"], w.keys["EdDSA"] = es, NewKey("ES384"), NewKey("ES512"), NewKey("EdDSA")
	all := []*Key{}
	for _, alg := range token.DefaultAlgorithms() {
		if k := w.keys[alg]; k != nil {
			all = append(all, k)
		}
	}
	w.keys["RS256"] = rs
	w.Issuer.Keys = append(append([]*Key{}, all...), rs) // the last one signs
	w.Realm.Keys = append(append([]*Key{}, all...), w.Realm.Keys[0])
	for _, i := range []*Issuer{w.Issuer, w.Realm} {
		i.Extra = w.unfitKeys(i)
	}
	for _, i := range w.Issuers() {
		i.Now = func() time.Time { return w.Now }
	}
	return w
}

// Issuers returns all three.
func (w *World) Issuers() []*Issuer { return []*Issuer{w.Issuer, w.Other, w.Realm} }

// Verifier returns a verifier that knows all three.
func (w *World) Verifier() *token.Verifier { return NewVerifier(w.Issuers()...) }

// KeySet returns their keys.
func (w *World) KeySet() *token.KeySet { return KeySet(w.Issuers()...) }

// Case is one named token and what must become of it.
type Case struct {
	Name  string // the attack, unique together with Profile
	Row   string // of the validation tables, such as "A14"; "ok" for a control
	Token string

	Profile   token.Profile
	Accepted  bool
	Kind      token.Kind // when refused
	ClientOwn bool       // when accepted: no user behind it
}

// recipe is a case for any issuer.
type recipe struct {
	row, name string
	kind      token.Kind // 0: accepted
	own       bool
	changes   []Change
}

func bad(row, name string, kind token.Kind, changes ...Change) recipe {
	return recipe{row: row, name: name, kind: kind, changes: changes}
}

func good(row, name string, changes ...Change) recipe {
	return recipe{row: row, name: name, changes: changes}
}

func own(row, name string, changes ...Change) recipe {
	return recipe{row: row, name: name, own: true, changes: changes}
}

// Cases mints all cases: tables A, B and C for both profiles, then each
// profile's own.
func (w *World) Cases() []Case {
	var out []Case
	add := func(i *Issuer, recipes []recipe) {
		for _, r := range recipes {
			out = append(out, Case{
				Name: r.name, Row: r.row, Profile: i.Profile, Token: i.Mint(r.changes...),
				Accepted: r.kind == 0, Kind: r.kind, ClientOwn: r.own,
			})
		}
	}
	for _, i := range []*Issuer{w.Issuer, w.Realm} {
		add(i, w.formats(i))
		add(i, w.algorithms(i))
		add(i, w.signatures(i))
		add(i, w.headers(i))
		add(i, w.types(i))
		add(i, w.claims(i))
		add(i, w.scopes())
		add(i, w.dates(i))
		add(i, w.documents(i))
	}
	add(w.Issuer, w.rfc9068())
	add(w.Realm, w.keycloak())
	return out
}
