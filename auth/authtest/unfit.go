package authtest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"math/big"
	"strings"
)

// JWK writes a key with the members that follow, a comma in front of each.
func JWK(k *Key, members string) string {
	switch p := k.Private.Public().(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf(`{"kty":"RSA","n":"%s","e":"%s"%s}`, b64(p.N.Bytes()), b64(big.NewInt(int64(p.E)).Bytes()), members)
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			panic("authtest: " + err.Error())
		}
		half := len(point) / 2
		return fmt.Sprintf(`{"kty":"EC","crv":"%s","x":"%s","y":"%s"%s}`, p.Curve.Params().Name, b64(point[1:1+half]), b64(point[1+half:]), members)
	case ed25519.PublicKey:
		return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":"%s"%s}`, b64(p), members)
	}
	panic("authtest: no such key")
}

// unfitKeys returns keys that the issuer publishes and that must verify nothing.
// All but one are the same RSA key, so that only the rule in question refuses it.
func (w *World) unfitKeys(i *Issuer) []string {
	publish := func(name, members string) string {
		k := w.hidden[name]
		if k == nil {
			k = i.Current().As("RS256")
			k.ID = "unfit-" + strings.ReplaceAll(name, " ", "-")
			w.hidden[name] = k
		}
		return JWK(k, fmt.Sprintf(`,"kid":%q%s`, k.ID, members))
	}
	return []string{
		publish("use enc", `,"use":"enc"`),
		publish("key_ops encrypt", `,"key_ops":["encrypt","wrapKey"]`),
		publish("alg RSA-OAEP", `,"alg":"RSA-OAEP"`),
		publish("private member", `,"alg":"RS256","d":"AQAB"`),
		JWK(w.attacker, fmt.Sprintf(`,"kid":%q,"alg":"RS256"`, i.Current().ID)), // a kid used twice
		`{"kty":"oct","kid":"shared-secret","alg":"HS256","k":"c2VjcmV0"}`,
	}
}
