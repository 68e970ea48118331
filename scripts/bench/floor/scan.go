package main

// scanID finds the value of the top-level member "id" of a JSON object: b[a:e],
// or a < 0 without one. It checks no more of the JSON than it must.
func scanID(b []byte) (a, e int, ok bool) {
	s := scanner{b: b}
	a = -1
	s.space()
	if !s.eat('{') {
		return 0, 0, false
	}
	s.space()
	if s.eat('}') {
		return -1, -1, true
	}
	for {
		s.space()
		k := s.i + 1
		if !s.str() {
			return 0, 0, false
		}
		key := b[k : s.i-1]
		s.space()
		if !s.eat(':') {
			return 0, 0, false
		}
		s.space()
		v := s.i
		if !s.value() {
			return 0, 0, false
		}
		if string(key) == "id" {
			if a >= 0 {
				return 0, 0, false // twice
			}
			a, e = v, s.i
		}
		s.space()
		if s.eat(',') {
			continue
		}
		if !s.eat('}') {
			return 0, 0, false
		}
		s.space()
		return a, e, s.i == len(b)
	}
}

type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

func (s *scanner) eat(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) str() bool {
	if !s.eat('"') {
		return false
	}
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return true
		case c == '\\':
			s.i++
		case c < 0x20:
			return false
		}
	}
	return false
}

func (s *scanner) value() bool {
	if s.i >= len(s.b) {
		return false
	}
	switch s.b[s.i] {
	case '"':
		return s.str()
	case '{', '[':
		depth := 0
		for s.i < len(s.b) {
			switch s.b[s.i] {
			case '"':
				if !s.str() {
					return false
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			s.i++
			if depth == 0 {
				return true
			}
		}
		return false
	}
	for s.i < len(s.b) && s.b[s.i] != ',' && s.b[s.i] != '}' && s.b[s.i] > ' ' {
		s.i++
	}
	return true
}
