"""What was made at a Keycloak, so that it, and nothing else, can be undone."""

import json
import os
import tempfile


class Journal:
    """Records of one file: each has url and realm, and what undo needs. Every change is on disk at once."""

    def __init__(self, path, url, realm):
        self.path, self.url, self.realm = path, url, realm
        try:
            with open(path, encoding="utf-8") as f:
                self.all = json.load(f)
        except FileNotFoundError:
            self.all = []

    def mine(self):
        """The records of this realm, the newest first."""
        return [r for r in reversed(self.all) if r["url"] == self.url and r["realm"] == self.realm]

    def add(self, record):
        self.all.append({"url": self.url, "realm": self.realm, **record})
        self._save()

    def drop(self, record):
        self.all.remove(record)
        self._save()

    def _save(self):
        if not self.all:
            if os.path.exists(self.path):
                os.unlink(self.path)
            return
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=folder, prefix=".journal.")  # mode 0600
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            json.dump(self.all, f, indent=1)
            f.flush()
            os.fsync(f.fileno())
        os.replace(name, self.path)
