package token

import (
	"errors"
	"math/big"
	"slices"
)

// The field and curve of Ed25519 (RFC 8032 section 5.1):
// -x² + y² = 1 + d·x²·y² modulo 2^255 - 19.
var (
	edwardsP = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	edwardsD = edwardsQuotient(big.NewInt(-121665), big.NewInt(121666))
)

func edwardsQuotient(a, b *big.Int) *big.Int {
	q := new(big.Int).ModInverse(b, edwardsP)
	return q.Mod(q.Mul(q, a), edwardsP)
}

// checkEdwardsPoint refuses encodings that are not canonical, of no point, or of
// a point of small order, under which anybody can sign.
func checkEdwardsPoint(encoded []byte) error {
	b := slices.Clone(encoded)
	slices.Reverse(b) // little endian
	b[0] &= 0x7f      // the sign of x
	y := new(big.Int).SetBytes(b)
	if y.Cmp(edwardsP) >= 0 {
		return errors.New("its point is not canonical")
	}
	one := big.NewInt(1)
	yy := new(big.Int).Mul(y, y)
	yy.Mod(yy, edwardsP)
	num := new(big.Int).Sub(yy, one)
	den := new(big.Int).Mul(edwardsD, yy)
	den.Mod(den.Add(den, one), edwardsP)
	num.Mod(num, edwardsP)
	xx := edwardsQuotient(num, den) // den is never 0, for -1/d is no square
	x := new(big.Int).ModSqrt(xx, edwardsP)
	switch {
	case x == nil:
		return errors.New("its point is not on the curve")
	case smallOrder(xx, yy):
		return errors.New("its point has a small order")
	}
	return nil
}

// smallOrder reports whether eight times the point of the given x² and y² is the
// neutral element. Doubling maps (x, y) to a point with x = 2xy/(1+dx²y²) and
// y = (x²+y²)/(1-dx²y²); the order is 1 or 2 when x is 0, 4 when y is 0, and 8
// when the doubled y is 0, so when x² = -y².
func smallOrder(xx, yy *big.Int) bool {
	sum := new(big.Int).Add(xx, yy)
	return xx.Sign() == 0 || yy.Sign() == 0 || sum.Mod(sum, edwardsP).Sign() == 0
}
