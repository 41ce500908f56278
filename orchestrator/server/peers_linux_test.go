package server

// tellsPeers says whether the kernel tells whose a connection through loopback is.
const tellsPeers = true
