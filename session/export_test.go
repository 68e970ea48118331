package session

// Kept says how many streams, and bytes of them, a session keeps.
func Kept(s *Session) (tracks, bytes int) {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	return len(s.replay.tracks), s.replay.bytes
}

// Relist enters a session that has ended, as it is before its end is noticed.
func Relist(s *Session) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.sessions[s.key] = s
}

// ProtocolVersion is the version agreed with the client.
func (s *Session) ProtocolVersion() string { return s.version }

// Pace is what the workers of the caller wait in while they flood.
func (t *Table) Pace(c Caller) func() { return t.pace(c.Principal) }

// EndHeld lets go of the calls that wait in the session's worker, as its end does.
func EndHeld(s *Session) { s.held.end() }

// Held is how many calls wait in the session's worker.
func Held(s *Session) int {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	return len(s.held.of)
}
