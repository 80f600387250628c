"""Federation without a server: real peers exchange models over Eclipse Zenoh."""
