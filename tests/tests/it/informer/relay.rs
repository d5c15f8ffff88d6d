//! A socket in front of the puller's, whose connections can be cut.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};

/// Passes connections on to the puller for as long as it is not cut.
#[derive(Debug)]
pub(crate) struct Relay {
    directory: TempDir,
    whole: watch::Sender<bool>,
    vanished: watch::Sender<()>,
    bytes: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Relay {
    /// A relay to this socket.
    pub(crate) async fn to(socket: &Path) -> Self {
        let directory = TempDir::new().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("relay.sock")).expect("a socket");
        let (whole, vanished, bytes) = (watch::Sender::new(true), watch::Sender::new(()), Arc::default());
        let task = tokio::spawn(accept(
            listener,
            socket.to_owned(),
            whole.subscribe(),
            vanished.clone(),
            Arc::clone(&bytes),
        ));
        Self {
            directory,
            whole,
            vanished,
            bytes,
            task,
        }
    }

    /// What a client dials.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.directory.path().join("relay.sock").display())
    }

    /// Bytes that the puller has sent so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Ends all connections, and those that come at once.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Passes nothing more over the connections that there are, neither bytes nor their end: each side has
    /// vanished for the other, as when a machine dies. New connections are let through.
    pub(crate) fn vanish(&self) {
        self.vanished.send_replace(());
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn accept(
    listener: UnixListener,
    socket: PathBuf,
    whole: watch::Receiver<bool>,
    vanished: watch::Sender<()>,
    bytes: Arc<AtomicU64>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (socket, mut whole, bytes) = (socket.clone(), whole.clone(), Arc::clone(&bytes));
        let vanished = vanished.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                _ = whole.wait_for(|whole| !whole) => {}
                () = pass(client, &socket, &bytes, vanished) => {}
            }
        });
    }
}

/// Both ways, until one of them ends. Once the ends have vanished for each other, that is never.
async fn pass(client: UnixStream, socket: &Path, bytes: &AtomicU64, mut vanished: watch::Receiver<()>) {
    // The puller may be down: then so is the relay.
    let Ok(puller) = UnixStream::connect(socket).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_puller, mut to_puller) = puller.into_split();
    let answers = async {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = from_puller.read(&mut buffer).await {
            bytes.fetch_add(read as u64, Relaxed);
            if to_client.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_puller) => return,
        () = answers => return,
        _ = vanished.changed() => {}
    }
    std::future::pending::<()>().await;
}
