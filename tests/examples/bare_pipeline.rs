//! What `make bench` holds the puller against: the least that gets an image onto a disk.
//!
//! Three threads: one gets the bytes and hashes them, one inflates, one writes files by a plain
//! openat/write loop. Layers one after the other. No diffID, no safety (an archive may write
//! anywhere), no whiteouts, no resume, no sync, plain HTTP, no redirects: never use it for anything
//! else.
//!
//! `bare_pipeline HOST:PORT REPOSITORY TAG DIR`

use std::{
    env,
    error::Error,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use sha2::{Digest as _, Sha256};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes of one piece between two threads, and pieces on the way: enough that nobody waits long.
const PIECE: usize = 256 * 1024;
const PIECES: usize = 8;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [host, repository, tag, dir] = arguments.as_slice() else {
        return Err("usage: bare_pipeline HOST:PORT REPOSITORY TAG DIR".into());
    };
    let mut manifest = Vec::new();
    get(host, &format!("/v2/{repository}/manifests/{tag}"))?.read_to_end(&mut manifest)?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest)?;
    for layer in manifest["layers"].as_array().ok_or("no layers")? {
        let digest = layer["digest"].as_str().ok_or("no digest")?;
        pull_layer(
            host,
            &format!("/v2/{repository}/blobs/{digest}"),
            digest,
            Path::new(dir),
        )?;
    }
    Ok(())
}

fn pull_layer(host: &str, path: &str, digest: &str, dir: &Path) -> Result<()> {
    let (compressed_in, compressed) = sync_channel(PIECES);
    let (plain_in, plain) = sync_channel(PIECES);
    let (host, path) = (host.to_owned(), path.to_owned());
    let get = thread::spawn(move || download(&host, &path, &compressed_in));
    let inflate = thread::spawn(move || inflate(compressed, &plain_in));
    untar(Pieces::new(plain), dir)?;
    inflate.join().map_err(|_| "inflate")??;
    let hash = get.join().map_err(|_| "get")??;
    if digest != format!("sha256:{hash}") {
        return Err(format!("{digest} expected, {hash} got").into());
    }
    Ok(())
}

fn get(host: &str, path: &str) -> Result<impl Read + use<>> {
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Accept: application/vnd.oci.image.manifest.v1+json\r\n\r\n"
    )?;
    let mut reader = BufReader::with_capacity(PIECE, stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.contains(" 200 ") {
        return Err(format!("{path}: {line}").into());
    }
    let mut length = None;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = Some(value.trim().parse::<u64>()?);
        }
    }
    Ok(reader.take(length.ok_or("no Content-Length")?))
}

fn download(host: &str, path: &str, out: &SyncSender<Vec<u8>>) -> Result<String> {
    let mut body = get(host, path)?;
    let mut hash = Sha256::new();
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        if body.by_ref().take(PIECE as u64).read_to_end(&mut piece)? == 0 {
            return Ok(hex::encode(hash.finalize()));
        }
        hash.update(&piece);
        out.send(piece)?;
    }
}

fn inflate(compressed: Receiver<Vec<u8>>, out: &SyncSender<Vec<u8>>) -> Result<()> {
    let mut source = BufReader::with_capacity(PIECE, Pieces::new(compressed));
    let magic = source.fill_buf()?;
    let mut plain: Box<dyn Read> = if magic.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(source))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(zstd::stream::read::Decoder::with_buffer(source)?)
    } else {
        Box::new(source)
    };
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        if plain.by_ref().take(PIECE as u64).read_to_end(&mut piece)? == 0 || out.send(piece).is_err() {
            return Ok(());
        }
    }
}

fn untar(source: impl Read, dir: &Path) -> Result<()> {
    let mut archive = tar::Archive::new(source);
    let mut buffer = vec![0; PIECE];
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = dir.join(entry.path()?);
        let target = |entry: &tar::Entry<'_, _>| {
            entry
                .link_name()
                .map(|name| name.unwrap_or_default().into_owned())
        };
        match entry.header().entry_type() {
            tar::EntryType::Directory => std::fs::create_dir_all(&path)?,
            tar::EntryType::Symlink => std::os::unix::fs::symlink(target(&entry)?, &path)?,
            tar::EntryType::Link => std::fs::hard_link(dir.join(target(&entry)?), &path)?,
            tar::EntryType::Regular => {
                let mut file = create(&path)?;
                loop {
                    let n = entry.read(&mut buffer)?;
                    if n == 0 {
                        break;
                    }
                    file.write_all(&buffer[..n])?;
                }
            }
            _ => {}
        }
    }
    // To the end, so that all of the layer is hashed.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}

fn create(path: &PathBuf) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o644);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            options.open(path)
        }
        other => other,
    }
}

/// Pieces of a channel as a reader.
struct Pieces {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Pieces {
    fn new(pieces: Receiver<Vec<u8>>) -> Self {
        Self {
            pieces,
            piece: Vec::new(),
            at: 0,
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            match self.pieces.recv() {
                Ok(piece) => (self.piece, self.at) = (piece, 0),
                Err(_) => return Ok(0),
            }
        }
        let n = buffer.len().min(self.piece.len() - self.at);
        buffer[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
