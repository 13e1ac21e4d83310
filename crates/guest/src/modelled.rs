// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk with modelled speed: an NBD server over a UNIX socket, whose reads take the time that a
//! [`foreread_model::Disk`] says.
//!
//! The bytes are a copy of the image in memory, which the guest's writes change; writes take no
//! time. The guest's own elevator is in front of it, so merging and order are those of its kernel.
//! A guest under emulation is bound by its processor: only a disk of some 100 requests a second is
//! slow to it.
//!
//! Two threads a disk: one takes requests and hands them to the model, one sleeps until the model
//! has something done and replies. Both end when QEMU closes the connection.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foreread_model::{Counters, Disk, DiskParameters, Request};

// https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle handshake, no padding of zeros.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// The export has flags, and takes flushes.
const EXPORT_FLAGS: u16 = 0b101;
const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const INFO_EXPORT: u16 = 0;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const INVALID: u32 = 22;
/// More than any request of QEMU; a length from the wire is not taken at its word.
const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// A disk that is being served. It serves one guest.
pub(crate) struct Modelled {
    shared: Arc<Shared>,
    receiver: Option<JoinHandle<()>>,
}

struct Shared {
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    disk: Disk,
    content: Vec<u8>,
    /// Reads with the disk, by their NBD handle.
    reads: HashMap<u64, (u64, u32)>,
    /// Where replies go; taken apart from the thread that reads requests.
    replies: Option<UnixStream>,
    closed: bool,
}

impl Modelled {
    /// Serves a copy of `content` at `socket`.
    pub(crate) fn serve(
        socket: &Path,
        content: Vec<u8>,
        mut parameters: DiskParameters,
    ) -> io::Result<Self> {
        if parameters.capacity_bytes == 0 {
            parameters.capacity_bytes = content.len() as u64;
        }
        let listener = UnixListener::bind(socket)?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            state: Mutex::new(State {
                disk: Disk::new(parameters),
                content,
                reads: HashMap::new(),
                replies: None,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let receiver = std::thread::spawn(move || served.accept(&listener));
        Ok(Self {
            shared,
            receiver: Some(receiver),
        })
    }

    /// Waits until the guest has closed the disk; returns the counters of the disk.
    /// Only for a guest that has connected: call it after QEMU's end.
    pub(crate) fn finish(mut self, socket: &Path) -> Counters {
        // A QEMU that died before it connected leaves the server waiting for a connection.
        drop(UnixStream::connect(socket));
        if let Some(receiver) = self.receiver.take() {
            // A thread that panicked has nothing to add to the counters.
            let _ = receiver.join();
        }
        self.shared.lock().disk.counters()
    }
}

impl Shared {
    fn accept(&self, listener: &UnixListener) {
        if let Ok((stream, _)) = listener.accept() {
            std::thread::scope(|scope| {
                scope.spawn(|| self.reply_in_time());
                // A connection that breaks ends the guest, which tells of it.
                let _ = self.take_requests(stream);
                self.lock().closed = true;
                self.changed.notify_all();
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn take_requests(&self, mut stream: UnixStream) -> io::Result<()> {
        let size_bytes = self.lock().content.len() as u64;
        if !handshake(&mut stream, size_bytes)? {
            return Ok(());
        }
        self.lock().replies = Some(stream.try_clone()?);
        loop {
            let mut header = [0; 28];
            stream.read_exact(&mut header)?;
            let word = |at: usize| u32::from_be_bytes(four(&header, at));
            let kind = u16::from_be_bytes([header[6], header[7]]);
            let handle = u64::from_be_bytes(eight(&header, 8));
            let offset_bytes = u64::from_be_bytes(eight(&header, 16));
            let length_bytes = word(24);
            if word(0) != REQUEST_MAGIC || length_bytes > REQUEST_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match kind {
                READ => self.submit(handle, offset_bytes, length_bytes),
                WRITE => {
                    let mut data = vec![0; length_bytes as usize];
                    stream.read_exact(&mut data)?;
                    let mut state = self.lock();
                    let error = match range(&state.content, offset_bytes, length_bytes) {
                        Some(range) => {
                            state.content[range].copy_from_slice(&data);
                            0
                        }
                        None => INVALID,
                    };
                    reply(&mut state.replies, handle, error, &[])?;
                }
                FLUSH => reply(&mut self.lock().replies, handle, 0, &[])?,
                DISCONNECT => return Ok(()),
                _ => reply(&mut self.lock().replies, handle, INVALID, &[])?,
            }
        }
    }

    fn submit(&self, handle: u64, offset_bytes: u64, length_bytes: u32) {
        let mut state = self.lock();
        state.reads.insert(handle, (offset_bytes, length_bytes));
        let now_ns = self.now_ns();
        state.disk.submit(
            now_ns,
            Request {
                id: handle,
                offset_bytes,
                length_bytes: u64::from(length_bytes),
                write: false,
            },
        );
        self.changed.notify_all();
    }

    /// Replies to each read when the model is done with it.
    fn reply_in_time(&self) {
        let mut state = self.lock();
        let mut done = Vec::new();
        while !state.closed {
            state.disk.advance(self.now_ns(), &mut done);
            for completion in done.drain(..) {
                let Some((offset_bytes, length_bytes)) = state.reads.remove(&completion.id) else {
                    continue;
                };
                let State {
                    content, replies, ..
                } = &mut *state;
                let sent = match range(content, offset_bytes, length_bytes) {
                    Some(range) => reply(replies, completion.id, 0, &content[range]),
                    None => reply(replies, completion.id, INVALID, &[]),
                };
                if sent.is_err() {
                    return;
                }
            }
            state = match state.disk.next_event_ns() {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(next_ns) => {
                    let wait = Duration::from_nanos(next_ns.saturating_sub(self.now_ns()));
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Greets the client and answers its options. False when it only looked.
fn handshake(stream: &mut UnixStream, size_bytes: u64) -> io::Result<bool> {
    let mut greeting = MAGIC.to_be_bytes().to_vec();
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend(HANDSHAKE_FLAGS.to_be_bytes());
    stream.write_all(&greeting)?;
    let mut flags = [0; 4];
    stream.read_exact(&mut flags)?;
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let option = u32::from_be_bytes(four(&header, 8));
        let length_bytes = u32::from_be_bytes(four(&header, 12));
        if u64::from_be_bytes(eight(&header, 0)) != OPTION_MAGIC || length_bytes > REQUEST_BYTES_MAX
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut data = vec![0; length_bytes as usize];
        stream.read_exact(&mut data)?;
        match option {
            OPTION_GO => {
                let mut info = INFO_EXPORT.to_be_bytes().to_vec();
                info.extend(size_bytes.to_be_bytes());
                info.extend(EXPORT_FLAGS.to_be_bytes());
                option_reply(stream, option, REPLY_INFO, &info)?;
                option_reply(stream, option, REPLY_ACK, &[])?;
                return Ok(true);
            }
            OPTION_ABORT => {
                option_reply(stream, option, REPLY_ACK, &[])?;
                return Ok(false);
            }
            _ => option_reply(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
}

fn option_reply(stream: &mut UnixStream, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

fn reply(replies: &mut Option<UnixStream>, handle: u64, error: u32, data: &[u8]) -> io::Result<()> {
    let Some(stream) = replies else { return Ok(()) };
    let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(error.to_be_bytes());
    bytes.extend(handle.to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// The bytes of a request, where they lie on the disk.
fn range(content: &[u8], offset_bytes: u64, length_bytes: u32) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset_bytes).ok()?;
    let end = start.checked_add(length_bytes as usize)?;
    (end <= content.len()).then_some(start..end)
}

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    word
}

fn eight(bytes: &[u8], at: usize) -> [u8; 8] {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that reads and writes as QEMU does.
    struct Client(UnixStream);

    impl Client {
        fn connect(socket: &Path, size_bytes: u64) -> Self {
            let mut stream = UnixStream::connect(socket).unwrap();
            let mut greeting = [0; 18];
            stream.read_exact(&mut greeting).unwrap();
            stream.write_all(&3u32.to_be_bytes()).unwrap();
            let mut client = Self(stream);
            client.option(8, REPLY_UNSUPPORTED, 0);
            let info = client.option(OPTION_GO, REPLY_INFO, 12);
            assert_eq!(u64::from_be_bytes(eight(&info, 2)), size_bytes);
            let mut ack = [0; 20];
            client.0.read_exact(&mut ack).unwrap();
            client
        }

        fn option(&mut self, option: u32, kind: u32, reply_bytes: usize) -> Vec<u8> {
            self.0.write_all(&OPTION_MAGIC.to_be_bytes()).unwrap();
            self.0.write_all(&option.to_be_bytes()).unwrap();
            self.0.write_all(&0u32.to_be_bytes()).unwrap();
            let mut header = [0; 20];
            self.0.read_exact(&mut header).unwrap();
            assert_eq!(u32::from_be_bytes(four(&header, 12)), kind);
            let mut data = vec![0; reply_bytes];
            self.0.read_exact(&mut data).unwrap();
            data
        }

        fn request(&mut self, kind: u16, offset_bytes: u64, length_bytes: u32, data: &[u8]) {
            let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
            bytes.extend(0u16.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend(7u64.to_be_bytes());
            bytes.extend(offset_bytes.to_be_bytes());
            bytes.extend(length_bytes.to_be_bytes());
            bytes.extend(data);
            self.0.write_all(&bytes).unwrap();
        }

        fn reply(&mut self, length_bytes: usize) -> Result<Vec<u8>, u32> {
            let mut header = [0; 16];
            self.0.read_exact(&mut header).unwrap();
            assert_eq!(u64::from_be_bytes(eight(&header, 8)), 7);
            match u32::from_be_bytes(four(&header, 4)) {
                0 => {
                    let mut data = vec![0; length_bytes];
                    self.0.read_exact(&mut data).unwrap();
                    Ok(data)
                }
                error => Err(error),
            }
        }
    }

    #[test]
    fn reads_take_the_modelled_time_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd");
        let mut content = vec![1; 1 << 20];
        content[4096..8192].fill(2);
        let parameters = DiskParameters {
            latency_ns: 20_000_000,
            ..DiskParameters::preset("usb").unwrap()
        };
        let disk = Modelled::serve(&socket, content, parameters).unwrap();
        let mut client = Client::connect(&socket, 1 << 20);
        let started = Instant::now();
        client.request(READ, 4096, 4096, &[]);
        assert_eq!(client.reply(4096), Ok(vec![2; 4096]));
        assert!(started.elapsed() >= Duration::from_millis(20), "too fast");
        client.request(WRITE, 0, 512, &[9; 512]);
        assert_eq!(client.reply(0), Ok(vec![]));
        client.request(READ, 0, 512, &[]);
        assert_eq!(client.reply(512), Ok(vec![9; 512]));
        client.request(FLUSH, 0, 0, &[]);
        assert_eq!(client.reply(0), Ok(vec![]));
        client.request(READ, 1 << 20, 1, &[]);
        assert_eq!(client.reply(1), Err(INVALID), "behind the end");
        client.request(DISCONNECT, 0, 0, &[]);
        let counters = disk.finish(&socket);
        assert_eq!((counters.requests, counters.bytes), (3, 4096 + 512 + 1));
    }

    #[test]
    fn a_server_that_nobody_came_to_ends() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd");
        let parameters = DiskParameters::preset("hdd").unwrap();
        let disk = Modelled::serve(&socket, vec![0; 4096], parameters).unwrap();
        assert_eq!(disk.finish(&socket), Counters::default());
    }
}
