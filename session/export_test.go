package session

// Kept says how many streams, and bytes of them, a session keeps.
func Kept(s *Session) (tracks, bytes int) {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	return len(s.replay.tracks), s.replay.bytes
}
