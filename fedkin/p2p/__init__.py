"""The federation without a server: real peers that exchange models over Eclipse Zenoh."""
