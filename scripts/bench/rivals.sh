# shellcheck shell=bash
# What people put in front of a stdio server today, by package name and version.
# Source it after test-lib.sh. Each is installed once, under CACHE.

# install_rivals: installs what can be, and says aloud what cannot.
install_rivals() {
  rival "the rivals on Node.js" need_node
  rival "supergateway" npm_cached supergateway supergateway@4.0.0
  rival "mcp-proxy (npm)" npm_cached npm-mcp-proxy mcp-proxy@6.7.19
  rival "mcp-proxy (PyPI)" python_cached python-mcp-proxy mcp-proxy==0.13.0
  rival "fastmcp" python_cached python-fastmcp fastmcp==4.2.3
}

# rival NAME COMMAND…: in a subshell, because the installers give up by exit.
rival() {
  local name=$1
  shift
  (trap - EXIT; "$@") || say "SKIPPED: $name could not be installed" >&2
}
