//! TCP of accepted connections.

use std::{
    future::{Ready, ready},
    io,
    time::Duration,
};

use axum_server::accept::Accept;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// When a connection on which nothing happens is asked whether it is still there, and how often again.
const IDLE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(10);
const TIMES: u32 = 3;
/// How long a peer may acknowledge nothing, or take nothing, of what is to be sent. It is what ends a response
/// whose client is gone; one that reads, however slowly, never waits so long between two reads.
const UNACKNOWLEDGED: Duration = Duration::from_secs(120);

/// Sets what tells slow clients from dead ones, which is the kernel's to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tcp;

impl<S> Accept<TcpStream, S> for Tcp {
    type Stream = TcpStream;
    type Service = S;
    type Future = Ready<io::Result<(TcpStream, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        ready(set(&stream).map(|()| (stream, service)))
    }
}

fn set(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(IDLE)
        .with_interval(AGAIN)
        .with_retries(TIMES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    socket.set_tcp_nodelay(true)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_kernel_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (stream, ()) = Tcp.accept(stream, ()).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
        assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE);
    }
}
