// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows that wait to be fetched, and the choice of the next part of one of them.
//!
//! A disk is kept busy, and its queue short. Every other read of the disk waits behind the queued
//! requests, and a window of 8 MiB is 64 ms on a cloud volume. So a window is queued piece by
//! piece, as the pieces before it arrive. The in-flight target is the bandwidth-delay product: the
//! lowest request latency x the best throughput. With less the disk would idle, and more only
//! waits. The target is a little higher than that, so that the measured throughput can rise if the
//! target itself had limited it. BBR does the same for a network (Cardwell et al., ACM Queue 14(5),
//! 2016).
//!
//! A rotational disk gets one whole window after the other instead: reads by turns cost a seek
//! each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::stream::{Ask, FetchedRange, FileKey, joined, merged};

/// Windows that wait; of more the oldest are forgotten, whose readers have passed by.
const WAITING_MAX: usize = 1024;
/// Windows of one file that are fetched together.
const TOGETHER_MAX: usize = 64;
/// A disk counts as rotational, even if it doesn't report so, if a request costs as much as this
/// many pages and takes at least `SEEKS_NS_MIN`. Measured: 230 to 350 pages on rotational disks,
/// and 33 to 190 on others except a server of 1 GB/s. Half a turn is 2 ms at 15,000 rpm. Its
/// windows are queued one after the other: two windows queued in turns took twice as long.
const SEEKS_PAGES_MIN: u32 = 200;
const SEEKS_NS_MIN: u64 = 2_000_000;
/// Timers aren't much more exact than this. Reads of this duration may be in flight on any disk.
const EXACT: Duration = Duration::from_micros(500);
/// In-flight target, in quarters of the bandwidth-delay product (lowest request latency x best
/// throughput). It is 7 quarters. It is 12 quarters while the throughput still rises by a fifth or
/// more within the lowest latency of a request. With 6 quarters, one reader of a cloud volume was 6
/// % slower than with the kernel alone. With 8, a reader beside a scan waited 1.5 times as long.
const GAIN_QUARTERS: u64 = 7;
const RISING_QUARTERS: u64 = 12;
/// A piece has at least this many times the pages that cost as much as a request, so a request adds
/// at most a quarter to the cost. For that, a piece need not be larger than `PIECE_PAGES_MAX`, the
/// kernel's own default window. On a disk without measurements, two pieces are in flight, as with
/// the kernel.
const PIECE_COSTS: u64 = 4;
const PIECE_PAGES_MAX: u64 = 32;
/// Calls for less aren't worth their own time.
const PIECE_PAGES_MIN: u64 = 16;
/// A piece of small ranges, each a request of its own, has at most this many.
const PIECE_RANGES_MAX: usize = 16;
/// If requests of others keep a disk busier than the target all the time, a piece is queued anyway
/// after this many times the expected time.
const PATIENCE: u32 = 4;

/// Requested pages of a file, and those of them that are left. `R` is the means to reach the file.
#[derive(Clone, Debug)]
pub struct Window<R> {
    /// The means to reach the file.
    pub reached: R,
    /// The requests.
    pub asks: Vec<Ask>,
    /// The ranges fetched so far.
    pub fetched: Vec<FetchedRange>,
    /// Ranges left to fetch, as (first page, pages), ascending.
    left: VecDeque<(u64, u64)>,
    /// Whether a part of it was given out.
    is_begun: bool,
    /// Pages of it that a thread is queueing now.
    queueing_pages: u64,
}

impl<R> Window<R> {
    fn first(&self) -> Option<&Ask> {
        self.asks.first()
    }

    fn file(&self) -> Option<FileKey> {
        self.first().map(|ask| ask.file)
    }

    /// Whether its readers go down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.asks.iter().all(|ask| ask.is_down)
    }

    /// From its first page to its last one.
    fn span(&self) -> Option<(u64, u64)> {
        let (start, _) = *self.left.front()?;
        let (last, pages) = *self.left.back()?;
        Some((start, last.saturating_add(pages)))
    }

    /// Whether ranges of the two lie between each other's.
    fn is_among(&self, other: &Self) -> bool {
        match (self.span(), other.span()) {
            (Some((start, end)), Some((other_start, other_end))) => {
                start < other_end && other_start < end
            }
            _ => false,
        }
    }

    /// Takes the next ranges of the window, at most `pages_max` pages in `ranges_max` ranges.
    fn piece(&mut self, pages_max: u64, ranges_max: usize) -> Vec<(u64, u64)> {
        let is_down = self.is_down();
        let mut piece = Vec::new();
        let mut room = pages_max;
        while room > 0 && piece.len() < ranges_max {
            let next = match is_down {
                true => self.left.back_mut(),
                false => self.left.front_mut(),
            };
            let Some((start, pages)) = next else { break };
            let some = room.min(*pages);
            room -= some;
            *pages -= some;
            match is_down {
                true => piece.push((start.saturating_add(*pages), some)),
                false => {
                    piece.push((*start, some));
                    *start = start.saturating_add(some);
                }
            }
            if *pages == 0 && is_down {
                self.left.pop_back();
            } else if *pages == 0 {
                self.left.pop_front();
            }
        }
        self.is_begun = true;
        piece
    }
}

/// The pages of `ranges` that are not in `others`. Both are (first page, pages), ascending.
fn without(ranges: &VecDeque<(u64, u64)>, others: &[(u64, u64)]) -> VecDeque<(u64, u64)> {
    let mut left = VecDeque::with_capacity(ranges.len());
    for &(start, pages) in ranges {
        let (mut at, end) = (start, start.saturating_add(pages));
        // They are few: the waiting ranges of one file.
        for &(other, pages) in others {
            let other_end = other.saturating_add(pages);
            if other_end <= at || other >= end {
                continue;
            }
            if other > at {
                left.push_back((at, other - at));
            }
            at = other_end.min(end);
        }
        if at < end {
            left.push_back((at, end - at));
        }
    }
    left
}

/// The load of a disk, and its measured speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLoad {
    /// Pages that are being read, by any process.
    pub in_flight_pages: u64,
    /// Lowest latency of a request, in nanoseconds; 0 if unknown.
    pub least_ns: u64,
    /// Time per page at the highest throughput, in nanoseconds; 0 if unknown.
    pub page_ns: u64,
    /// Fixed cost of a request besides its pages, in nanoseconds; 0 if unknown.
    pub latency_ns: u64,
    /// Whether it says that it has a head.
    pub turns: bool,
}

impl DiskLoad {
    fn has_head(&self, ask: &Ask) -> bool {
        self.turns || ask.even_pages >= SEEKS_PAGES_MIN && self.latency_ns >= SEEKS_NS_MIN
    }
}

/// Limits of the pages in flight on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    page_ns: u64,
    /// `None` of a disk with a head: one window after the other is queued whole.
    pages_max: Option<u64>,
    piece_pages: u64,
    piece_ranges: usize,
}

impl Pace {
    fn of(ask: &Ask, load: &DiskLoad, is_rising: bool) -> Self {
        let page_ns = load.page_ns;
        if load.has_head(ask) {
            return Self {
                page_ns,
                pages_max: None,
                piece_pages: u64::MAX,
                piece_ranges: usize::MAX,
            };
        }
        let times = |ns: u64| ns.checked_div(page_ns).unwrap_or(0);
        let quarters = match is_rising {
            true => RISING_QUARTERS,
            false => GAIN_QUARTERS,
        };
        let arrive_pages = times(load.least_ns).saturating_mul(quarters) / 4;
        let arrive_pages = arrive_pages.max(times(EXACT.as_nanos() as u64));
        let cost_pages = u64::from(ask.busy_pages);
        let piece_pages = (cost_pages * PIECE_COSTS).max(PIECE_PAGES_MIN);
        let piece_pages = piece_pages.min(PIECE_PAGES_MAX).max(arrive_pages / 4);
        Self {
            page_ns,
            // A piece arrives as a whole. While it does, the next one is in flight: a reader that
            // reaches the end of the queued pages would miss the page after it.
            pages_max: Some(arrive_pages.max(piece_pages)),
            piece_pages,
            piece_ranges: PIECE_RANGES_MAX,
        }
    }

    fn time_of(&self, pages: u64) -> Duration {
        match self.page_ns {
            0 => EXACT,
            page_ns => Duration::from_nanos(pages.saturating_mul(page_ns)),
        }
    }

    /// Whether a piece may be queued with this load in flight and being queued, `waited` after the
    /// last piece was begun.
    fn room(&self, in_flight_pages: u64, queueing_pages: u64, waited: Duration) -> Room {
        let Some(pages_max) = self.pages_max else {
            return match queueing_pages {
                0 => Room::Now,
                _ => Room::WhenBack,
            };
        };
        let patience = self.time_of(pages_max.saturating_add(self.piece_pages));
        let patience = patience.saturating_mul(PATIENCE);
        let under_way = in_flight_pages.saturating_add(queueing_pages);
        if under_way <= pages_max || waited >= patience {
            return Room::Now;
        }
        // Pieces arrive as a whole, the next one before all of this time has passed.
        let wait = self.time_of(under_way - pages_max) / 2;
        Room::In(wait.max(EXACT / 4).min(patience - waited))
    }
}

/// When there is room for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Now,
    In(Duration),
    /// When the piece that is being queued was given back.
    WhenBack,
}

#[derive(Debug)]
struct Disk {
    number: u64,
    /// Pages that are being queued, and that the disk may not have been told of yet.
    queueing_pages: u64,
    /// When a piece was given out last.
    last: Option<Instant>,
    /// Time of the last check of its rate, and the time of a page then.
    looked: Option<(Instant, u64)>,
    is_rising: bool,
}

impl Disk {
    /// Whether its rate rises.
    fn look(&mut self, now: Instant, load: &DiskLoad) {
        let (since, page_ns) = *self.looked.get_or_insert((now, load.page_ns));
        if now.saturating_duration_since(since) >= Duration::from_nanos(load.least_ns) {
            self.is_rising = load.page_ns <= page_ns - page_ns / 5 && load.page_ns != page_ns;
            self.looked = Some((now, load.page_ns));
        }
    }
}

/// Some pages of a window.
#[derive(Debug)]
pub struct Piece<R> {
    /// The window of the pages.
    pub window: Window<R>,
    /// Ranges as (first page, pages), in the order of need.
    pub ranges: Vec<(u64, u64)>,
}

/// The next action for the caller.
#[derive(Debug)]
pub enum Next<R> {
    /// Queue this, and [give its window back](FetchQueue::back).
    Piece(Piece<R>),
    /// Ask again after this time, or when a window came or was given back.
    Wait(Duration),
    /// Wait for a window.
    Nothing,
}

/// Windows that wait.
#[derive(Debug)]
pub struct FetchQueue<R> {
    windows: VecDeque<Window<R>>,
    disks: Vec<Disk>,
    forgotten: u64,
}

impl<R> Default for FetchQueue<R> {
    fn default() -> Self {
        Self {
            windows: VecDeque::new(),
            disks: Vec::new(),
            forgotten: 0,
        }
    }
}

impl<R> FetchQueue<R> {
    /// One more, after all others. What waits already of the same pages is asked for anew.
    pub fn push(&mut self, reached: R, ask: Ask) {
        if self.windows.len() >= WAITING_MAX {
            self.windows.pop_front();
            self.forgotten += 1;
        }
        let ranges = merged(&[ask]);
        for window in self
            .windows
            .iter_mut()
            .filter(|window| window.file() == Some(ask.file))
        {
            window.left = without(&window.left, &ranges);
        }
        self.windows.push_back(Window {
            reached,
            asks: vec![ask],
            fetched: Vec::new(),
            left: ranges.into(),
            is_begun: false,
            queueing_pages: 0,
        });
    }

    /// Windows that were not fetched since there were too many.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The next piece to queue. `load` returns the load of a disk by its number.
    pub fn next(&mut self, now: Instant, load: impl Fn(u64) -> DiskLoad) -> Next<R> {
        // Disks without room; they are few.
        let mut full: Vec<(u64, Room)> = Vec::new();
        for at in 0..self.windows.len() {
            let Some(&ask) = self.windows.get(at).and_then(Window::first) else {
                continue;
            };
            if full.iter().any(|(disk, _)| *disk == ask.disk) {
                continue;
            }
            // A file without a known disk never has requests in flight.
            if ask.disk == 0 {
                return self.give_out(at, u64::MAX, usize::MAX);
            }
            let load = load(ask.disk);
            let disk = self.disk(ask.disk);
            disk.look(now, &load);
            let pace = Pace::of(&ask, &load, disk.is_rising);
            let waited = disk
                .last
                .map_or(Duration::MAX, |last| now.saturating_duration_since(last));
            match pace.room(load.in_flight_pages, disk.queueing_pages, waited) {
                Room::Now => {
                    disk.last = Some(now);
                    return self.give_out(at, pace.piece_pages, pace.piece_ranges);
                }
                room => full.push((ask.disk, room)),
            }
        }
        let waits = full.iter().filter_map(|(_, room)| match room {
            Room::In(wait) => Some(*wait),
            Room::Now | Room::WhenBack => None,
        });
        waits.min().map_or(Next::Nothing, Next::Wait)
    }

    /// A piece of the window that stands there.
    fn give_out(&mut self, at: usize, pages_max: u64, ranges_max: usize) -> Next<R> {
        let Some(mut window) = self.windows.remove(at) else {
            return Next::Nothing;
        };
        self.add_of_same_file(&mut window);
        let ranges = window.piece(pages_max, ranges_max);
        let pages = ranges.iter().map(|(_, pages)| pages).sum();
        if let Some(number) = window.first().map(|ask| ask.disk) {
            let disk = self.disk(number);
            disk.queueing_pages = disk.queueing_pages.saturating_add(pages);
        }
        window.queueing_pages = pages;
        Next::Piece(Piece { window, ranges })
    }

    /// Adds waiting windows among the same pages: the rows of one table that threads read by turns
    /// make larger requests together. Of windows that aren't begun, adds all of the same file.
    fn add_of_same_file(&mut self, window: &mut Window<R>) {
        let file = window.file();
        let waiting = self.windows.len();
        self.windows.retain_mut(|other| {
            let is_other = other.file() != file
                || ((other.is_begun || window.is_begun) && !window.is_among(other))
                || window.asks.len() + other.asks.len() > TOGETHER_MAX;
            if !is_other {
                window.asks.append(&mut other.asks);
                window.left.append(&mut other.left);
                window.fetched.append(&mut other.fetched);
            }
            is_other
        });
        // Most pieces are of a window to which nothing was added.
        if self.windows.len() < waiting {
            window.left = joined(window.left.make_contiguous()).into();
        }
    }

    fn disk(&mut self, number: u64) -> &mut Disk {
        let at = self.disks.iter().position(|disk| disk.number == number);
        let at = at.unwrap_or_else(|| {
            self.disks.push(Disk {
                number,
                queueing_pages: 0,
                last: None,
                looked: None,
                is_rising: false,
            });
            self.disks.len() - 1
        });
        &mut self.disks[at]
    }

    /// Takes a window back after its piece has been queued. Returns the window if none of its pages
    /// are left. Otherwise it waits again, after the windows of other files and before those of its
    /// own file.
    pub fn back(&mut self, mut window: Window<R>) -> Option<Window<R>> {
        self.free(&window);
        let mut turn = None;
        for (at, other) in self.windows.iter_mut().enumerate() {
            if other.file() == window.file() {
                turn = turn.or(Some(at));
                window.left = without(&window.left, other.left.make_contiguous());
            }
        }
        if window.left.is_empty() {
            return Some(window);
        }
        self.windows
            .insert(turn.unwrap_or(self.windows.len()), window);
        None
    }

    /// A window can't be fetched.
    pub fn give_up(&mut self, window: &Window<R>) {
        self.free(window);
    }

    fn free(&mut self, window: &Window<R>) {
        if let Some(number) = window.first().map(|ask| ask.disk) {
            let disk = self.disk(number);
            disk.queueing_pages = disk.queueing_pages.saturating_sub(window.queueing_pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const DISK: u64 = 8 << 32;
    /// As measured of a cloud volume: 22 pages arrive while a request is on its way.
    const CLOUD: DiskLoad = DiskLoad {
        in_flight_pages: 0,
        least_ns: 733_000,
        page_ns: 33_000,
        latency_ns: 700_000,
        turns: false,
    };

    fn ask(inode: u64, start_page: u64, pages: u64) -> Ask {
        Ask {
            file: FileKey {
                inode,
                ..FileKey::default()
            },
            disk: DISK,
            even_pages: 22,
            busy_pages: 4,
            start_page,
            pages,
            ..Ask::default()
        }
    }

    fn queue(asks: &[Ask]) -> FetchQueue<()> {
        let mut queue = FetchQueue::default();
        for ask in asks {
            queue.push((), *ask);
        }
        queue
    }

    fn piece(queue: &mut FetchQueue<()>, load: DiskLoad) -> (Window<()>, Vec<(u64, u64)>) {
        match queue.next(Instant::now(), |_| load) {
            Next::Piece(piece) => (piece.window, piece.ranges),
            other => panic!("{other:?}"),
        }
    }

    fn all(queue: &mut FetchQueue<()>, load: DiskLoad) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        while let Next::Piece(piece) = queue.next(Instant::now(), |_| load) {
            ranges.extend(piece.ranges);
            queue.back(piece.window);
        }
        ranges
    }

    #[test]
    fn a_window_is_queued_as_the_disk_gets_through() {
        let mut queue = queue(&[ask(1, 0, 100)]);
        let (window, ranges) = piece(&mut queue, CLOUD);
        assert_eq!(ranges, [(0, 16)]);
        assert!(queue.back(window).is_none());
        let (window, ranges) = piece(&mut queue, CLOUD);
        assert_eq!(ranges, [(16, 16)]);
        queue.back(window);
        let busy = DiskLoad {
            in_flight_pages: 40,
            ..CLOUD
        };
        let next = queue.next(Instant::now(), |_| busy);
        assert!(
            matches!(next, Next::Wait(wait) if wait < Duration::from_millis(1)),
            "{next:?}"
        );
        // Others may keep it busy for ever.
        let later = Instant::now() + Duration::from_millis(20);
        assert!(matches!(queue.next(later, |_| busy), Next::Piece(_)));
    }

    #[test]
    fn what_is_being_queued_counts() {
        let mut queue = queue(&[1, 2, 3, 4].map(|inode| ask(inode, 0, 100)));
        let first = piece(&mut queue, CLOUD);
        let second = piece(&mut queue, CLOUD);
        let third = piece(&mut queue, CLOUD);
        assert!(matches!(
            queue.next(Instant::now(), |_| CLOUD),
            Next::Wait(_)
        ));
        queue.give_up(&first.0);
        queue.give_up(&second.0);
        queue.give_up(&third.0);
        assert_eq!(all(&mut queue, CLOUD).len(), 7);
    }

    #[test]
    fn nothing_known_is_the_kernels_window_and_another() {
        let mut ask = ask(1, 0, 1000);
        ask.busy_pages = 32;
        let mut queue = queue(&[ask]);
        let unknown = |in_flight_pages| DiskLoad {
            in_flight_pages,
            ..DiskLoad::default()
        };
        let (window, ranges) = piece(&mut queue, unknown(0));
        assert_eq!(ranges, [(0, 32)]);
        queue.back(window);
        let (window, _) = piece(&mut queue, unknown(32));
        queue.back(window);
        assert!(matches!(
            queue.next(Instant::now(), |_| unknown(64)),
            Next::Wait(_)
        ));
    }

    #[test]
    fn a_disk_with_a_head_gets_one_window_after_the_other() {
        let slow = DiskLoad {
            latency_ns: 12_000_000,
            ..CLOUD
        };
        let turns = DiskLoad {
            turns: true,
            ..CLOUD
        };
        for (head, even_pages) in [(slow, 350), (turns, 32)] {
            one_after_the_other(head, even_pages);
        }
    }

    fn one_after_the_other(head: DiskLoad, even_pages: u32) {
        let asks = [1, 2].map(|inode| Ask {
            even_pages,
            ..ask(inode, 0, 2000)
        });
        let mut queue = queue(&asks);
        let (first, ranges) = piece(&mut queue, head);
        assert_eq!(ranges, [(0, 2000)]);
        assert!(matches!(
            queue.next(Instant::now(), |_| head),
            Next::Nothing
        ));
        assert!(queue.back(first).is_some());
        assert_eq!(piece(&mut queue, head).1, [(0, 2000)]);
    }

    #[test]
    fn what_has_no_disk_that_is_seen_does_not_wait() {
        let asks = [1, 2].map(|inode| Ask {
            disk: 0,
            ..ask(inode, 0, 5000)
        });
        let mut queue = queue(&asks);
        assert_eq!(piece(&mut queue, CLOUD).1, [(0, 5000)]);
        assert_eq!(piece(&mut queue, CLOUD).1, [(0, 5000)]);
    }

    #[test]
    fn files_take_turns_and_windows_of_one_follow_each_other() {
        let mut queue = queue(&[ask(1, 0, 32)]);
        let begun = piece(&mut queue, CLOUD).0;
        queue.push((), ask(1, 100, 16));
        queue.push((), ask(2, 0, 16));
        queue.back(begun);
        assert_eq!(all(&mut queue, CLOUD), [(16, 16), (100, 16), (0, 16)]);
    }

    #[test]
    fn what_is_asked_for_anew_is_queued_once() {
        let mut queue = queue(&[ask(1, 0, 64)]);
        let begun = piece(&mut queue, CLOUD).0;
        queue.push((), ask(1, 40, 40));
        queue.back(begun);
        let first: Vec<u64> = all(&mut queue, CLOUD)
            .into_iter()
            .flat_map(|(start, pages)| start..start + pages)
            .collect();
        let once: BTreeSet<u64> = first.iter().copied().collect();
        assert_eq!(first.len(), once.len());
        assert_eq!(once, (16..80).collect());
    }

    #[test]
    fn who_goes_down_gets_the_end_first() {
        let down = Ask {
            is_down: true,
            ..ask(1, 100, 40)
        };
        assert_eq!(
            all(&mut queue(&[down]), CLOUD),
            [(124, 16), (108, 16), (100, 8)]
        );
    }

    #[test]
    fn of_too_many_the_oldest_is_forgotten() {
        let mut queue = FetchQueue::default();
        for inode in 0..WAITING_MAX as u64 + 3 {
            queue.push((), ask(inode, 0, 1));
        }
        assert_eq!(queue.forgotten(), 3);
        assert_eq!(piece(&mut queue, CLOUD).0.file().unwrap().inode, 3);
    }

    proptest! {
        /// Against a disk that has always room: each page that was asked for comes, and none that
        /// wasn't.
        #[test]
        fn all_that_is_asked_for_comes(
            asks in prop::collection::vec(
                (1u64..4, 0u64..400, 0u64..120, 0u64..60, 0u32..6, any::<bool>()), 1..12
            )
        ) {
            let mut queue = FetchQueue::default();
            let (mut wanted, mut given) = (BTreeSet::new(), BTreeSet::new());
            let mut out = Vec::new();
            for (number, (inode, start, pages, step_pages, repeats, is_down)) in
                asks.into_iter().enumerate()
            {
                let ask = Ask { step_pages, repeats, is_down, ..ask(inode, start, pages) };
                for (start, pages) in ask.ranges() {
                    wanted.extend((start..start + pages).map(|page| (inode, page)));
                }
                queue.push((), ask);
                // Some are under way while others come.
                if number % 3 == 1 && let Next::Piece(Piece { window, ranges }) =
                    queue.next(Instant::now(), |_| CLOUD)
                {
                    out.push((window, ranges));
                }
            }
            let mut take = |window: &Window<()>, ranges: &[(u64, u64)]| {
                let inode = window.file().unwrap().inode;
                for &(start, pages) in ranges {
                    given.extend((start..start + pages).map(|page| (inode, page)));
                }
            };
            for (window, ranges) in out {
                take(&window, &ranges);
                queue.back(window);
            }
            let next = |queue: &mut FetchQueue<()>| queue.next(Instant::now(), |_| CLOUD);
            while let Next::Piece(Piece { window, ranges }) = next(&mut queue) {
                take(&window, &ranges);
                queue.back(window);
            }
            prop_assert_eq!(given, wanted);
        }

        /// A disk that delivers a page every tick is never idle while something waits. It never has
        /// more in flight than a queue and a piece.
        #[test]
        fn a_disk_is_busy_and_its_queue_short(
            asks in prop::collection::vec((1u64..4, 0u64..2000, 1u64..300), 1..8)
        ) {
            let mut queue = FetchQueue::default();
            for (inode, start, pages) in asks {
                queue.push((), ask(inode, start, pages));
            }
            let began = Instant::now();
            let in_flight = Cell::new(0u64);
            for tick in 0u32.. {
                let now = began + Duration::from_nanos(33_000) * tick;
                let load = |_| DiskLoad { in_flight_pages: in_flight.get(), ..CLOUD };
                match queue.next(now, load) {
                    Next::Piece(Piece { window, ranges }) => {
                        let pages: u64 = ranges.iter().map(|(_, pages)| pages).sum();
                        in_flight.set(in_flight.get() + pages);
                        queue.back(window);
                    }
                    Next::Wait(_) => prop_assert!(in_flight.get() > 22),
                    Next::Nothing => break,
                }
                prop_assert!(in_flight.get() <= 38 + 16);
                in_flight.set(in_flight.get().saturating_sub(1));
            }
        }

        #[test]
        fn any_load_is_borne(
            numbers in prop::array::uniform4(any::<u64>()), even_pages in any::<u32>(),
            busy_pages in any::<u32>()
        ) {
            let [in_flight_pages, least_ns, page_ns, latency_ns] = numbers;
            let load = DiskLoad { in_flight_pages, least_ns, page_ns, latency_ns, turns: false };
            let ask = Ask { even_pages, busy_pages, ..ask(1, u64::MAX - 10, 100) };
            let mut queue = queue(&[ask, ask]);
            while let Next::Piece(Piece { window, .. }) = queue.next(Instant::now(), |_| load) {
                queue.back(window);
            }
        }
    }
}
