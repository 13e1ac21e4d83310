// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a layout that the kernel wrote, read through the block device of the mounted file
//! system, with the kernel's own answers (`stat`, FIEMAP). Needs root and a loop device.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use foreread_prefetch::ext4::{
    Answer, FileExtent, Geometry, Inode, InodeFlags, Limits, Mapping, Name, Survey, WHOLE_FILE,
    Wanted, find_names,
};
use tempfile::TempDir;

use super::image::{have_e2fsprogs, joined};

/// Runs in a mount namespace of its own: whatever kills it, the mount goes with the namespace, and
/// the loop device with the mount.
const SCRIPT: &str = r#"
set -e
cd "$1"
truncate -s 256M image
mke2fs -q -F -t ext4 -b 4096 image
mkdir mnt
mount -o loop,noatime image mnt 2>mount-error || exit 77
device=$(findmnt -n -o SOURCE mnt)
cd mnt

mkdir indexed
(cd indexed && seq -f 'file-with-a-long-name-to-fill-blocks-%06g' 3000 | xargs touch)
dd if=/dev/urandom of=punched bs=64K count=200 status=none
i=0
while [ $i -lt 1500 ]; do
    fallocate -p -o $((i * 8192)) -l 4096 punched
    i=$((i + 1))
done
fallocate -l 1M reserved
dd if=/dev/urandom of=reserved bs=4K count=2 seek=50 conv=notrunc status=none
echo data > small
ln -s small fast-link
ln -s "$(printf '%0200d' 7)" slow-link
sync -f .
# Not synced: it must be seen all the same.
chmod 0123 small

for path in indexed punched reserved small fast-link slow-link; do
    stat -c "%n %i %a %s %.9Y $(lsattr -v -d $path 2>/dev/null | cut -d' ' -f1 | grep . || echo -)" \
        $path
done > ../stats
ls -1Ui indexed > ../names
for path in indexed punched reserved small; do
    filefrag -b4096 -v $path > ../extents-$path
done
dd if="$device" of=../dump bs=1M conv=sparse status=none
cd ..
umount mnt
"#;

/// Runs the script; says why when it can't.
fn dumped(directory: &Path) -> bool {
    if !have_e2fsprogs() {
        return false;
    }
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", SCRIPT, "sh"])
        .arg(directory);
    let Ok(output) = command.output() else {
        println!("skipped: unshare (package util-linux) is missing");
        return false;
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => true,
        Some(77) => {
            let why = fs::read_to_string(directory.join("mount-error")).unwrap();
            println!("skipped: no loop mount: {}", why.trim());
            false
        }
        _ if complaints.contains("unshare failed") => {
            println!("skipped: {}", complaints.trim());
            false
        }
        other => panic!("{other:?}: {complaints}"),
    }
}

/// The extents in the table of `filefrag -v`.
fn filefrag(table: &str) -> Vec<FileExtent> {
    let numbers = |line: &str| -> Option<Vec<u64>> {
        let fields = line
            .split([':', '.'])
            .map(str::trim)
            .filter(|field| !field.is_empty());
        fields.take(6).map(|field| field.parse().ok()).collect()
    };
    let extent = |line: &str| {
        let numbers = numbers(line)?;
        Some(FileExtent {
            logical_block: numbers[1] as u32,
            length_blocks: numbers[5] as u32,
            physical_block: numbers[3],
            unwritten: line.contains("unwritten"),
        })
    };
    joined(table.lines().filter_map(extent))
}

/// Output of `stat` and `lsattr`.
struct Stat {
    inode: u64,
    mode: u16,
    size_bytes: u64,
    mtime_ns: i64,
    /// `lsattr` can't open a link.
    generation: Option<u32>,
}

fn stats(lines: &str) -> HashMap<&str, Stat> {
    let stat = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        let stat = Stat {
            inode: fields[1].parse().unwrap(),
            mode: u16::from_str_radix(fields[2], 8).unwrap(),
            size_bytes: fields[3].parse().unwrap(),
            mtime_ns: fields[4].replace('.', "").parse().unwrap(),
            generation: fields[5].parse().ok(),
        };
        (fields[0], stat)
    };
    lines.lines().map(stat).collect()
}

fn survey(dump: &[u8], stats: &HashMap<&str, Stat>) -> HashMap<u64, Inode> {
    let mut source = dump;
    let mut geometry = Geometry::read(&mut source).unwrap();
    let numbers = || stats.values().map(|stat| stat.inode);
    geometry.load_groups(&mut source, numbers()).unwrap();
    let wanted = numbers().map(|inode| Wanted {
        inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(&geometry, wanted, Limits::default());
    survey.run(&mut source);
    survey
        .finish()
        .into_iter()
        .map(|found| (found.number, found.inode.unwrap()))
        .collect()
}

/// The names in a directory that the kernel has given an index, as `ls` lists them.
fn assert_all_are_found(dump: &[u8], list: &str) {
    let listed = list
        .lines()
        .map(|line| line.trim().split_once(' ').unwrap());
    let listed: Vec<(u64, &str)> = listed
        .map(|(inode, name)| (inode.parse().unwrap(), name))
        .collect();
    assert_eq!(listed.len(), 3000);
    let name = |parent, name: &'static str| Name {
        parent,
        name: name.as_bytes(),
    };
    let mut names = vec![
        name(None, ""),
        name(Some(0), "indexed"),
        name(Some(1), "missing"),
    ];
    names.extend(listed.iter().map(|(_, name)| Name {
        parent: Some(1),
        name: name.as_bytes(),
    }));
    let mut source = dump;
    let mut geometry = Geometry::read(&mut source).unwrap();
    let answers = find_names(
        &names,
        &mut geometry,
        &mut source,
        Limits::default(),
        |_| true,
    );
    assert_eq!(answers[2], Answer::Missing);
    for ((inode, name), answer) in listed.iter().zip(&answers[3..]) {
        assert!(
            matches!(answer, Answer::Found { number, .. } if number == inode),
            "{name}: {answer:?}"
        );
    }
}

#[test]
fn a_mounted_file_system_through_its_block_device() {
    let directory = TempDir::new().unwrap();
    if !dumped(directory.path()) {
        return;
    }
    let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let lines = text("stats");
    let stats = stats(&lines);
    let dump = fs::read(directory.path().join("dump")).unwrap();
    assert_all_are_found(&dump, &text("names"));
    let inodes = survey(&dump, &stats);
    let inode = |path: &str| &inodes[&stats[path].inode];
    for (path, stat) in &stats {
        let inode = inode(path);
        assert_eq!(inode.mode & 0o7777, stat.mode, "{path}");
        assert_eq!(inode.size_bytes, stat.size_bytes, "{path}");
        assert_eq!(inode.mtime_ns, stat.mtime_ns, "{path}");
        let generation = stat.generation.unwrap_or(inode.generation);
        assert_eq!(inode.generation, generation, "{path}");
    }
    for path in ["indexed", "punched", "reserved", "small"] {
        let expected = filefrag(&text(&format!("extents-{path}")));
        assert_eq!(
            joined(inode(path).extents().iter().copied()),
            expected,
            "{path}"
        );
        assert!(stats[path].generation.is_some(), "{path}");
    }
    assert_eq!(inode("small").mode & 0o777, 0o123);
    assert!(inode("indexed").flags.contains(InodeFlags::INDEX));
    assert!(inode("punched").extents().len() >= 1500);
    let unwritten = inode("reserved")
        .extents()
        .iter()
        .map(|extent| extent.unwritten);
    assert_eq!(unwritten.collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(inode("fast-link").mapping, Mapping::FastSymlink);
    assert_eq!(inode("slow-link").extents().len(), 1);
}
