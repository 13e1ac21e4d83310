// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlays: pages belong to the files of the layers, which is where a replay must read them; names
//! are looked up in both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_profile::{NodeKind, Uses};

use crate::mounted::{Image, Mounted};
use crate::setting::{Place, make, or_skip, record};

struct Overlay {
    merged: Mounted,
    lower: PathBuf,
    upper: PathBuf,
}

/// An overlay of two lower layers below `lowers` and an upper one in `place`.
fn mount(place: &Place, lowers: &Path) -> Result<Overlay, String> {
    for name in ["top", "bottom"] {
        fs::create_dir_all(lowers.join(name)).unwrap();
    }
    for name in ["upper", "work"] {
        fs::create_dir_all(place.join(name)).unwrap();
    }
    let (lower, here) = (lowers.display(), place.path().display());
    let layers = format!("lowerdir={lower}/top:{lower}/bottom");
    let options = format!("{layers},upperdir={here}/upper,workdir={here}/work");
    let merged = Mounted::new(
        &["-t", "overlay", "overlay", "-o", &options],
        &place.join("merged"),
    )?;
    Ok(Overlay {
        merged,
        lower: lowers.to_owned(),
        upper: place.join("upper"),
    })
}

fn make_layers(lowers: &Path, upper: &Path) {
    for directory in ["top/common", "bottom/common", "bottom/deep/er"] {
        fs::create_dir_all(lowers.join(directory)).unwrap();
    }
    fs::create_dir_all(upper.join("common")).unwrap();
    make(&lowers.join("bottom/common/bottom"), 5 * 4096);
    make(&lowers.join("bottom/deep/er/large"), 40 << 20);
    make(&lowers.join("bottom/common/both"), 7 * 4096);
    make(&lowers.join("top/common/both"), 6 * 4096);
    make(&upper.join("common/upper"), 4 * 4096);
}

#[test]
fn files_are_found_in_their_layers() {
    let place = or_skip!(Place::new());
    let lowers = place.join("lowers");
    make_layers(&lowers, &place.join("upper"));
    let overlay = or_skip!(mount(&place, &lowers));
    let names = ["common/bottom", "common/both", "common/upper"];
    let files = names.map(|name| overlay.merged.join(name));
    for _ in 0..2 {
        let recorded = record(Command::new("cat").args(&files));
        let found = recorded.pages_below(place.path());
        let expected = [
            (overlay.lower.join("bottom/common/bottom"), vec![(0, 5)]),
            (overlay.lower.join("top/common/both"), vec![(0, 6)]),
            (overlay.upper.join("common/upper"), vec![(0, 4)]),
        ];
        assert_eq!(found, expected.into_iter().collect());
        for file in &files {
            assert!(
                recorded.uses(file).contains(Uses::OPENED),
                "{}",
                file.display()
            );
        }
        assert_eq!(recorded.unresolved, Default::default());
    }
}

/// Large reads end in more than one event: none of it must land on the overlay's own inode.
#[test]
fn a_large_file_is_recorded_in_its_layer_alone() {
    let place = or_skip!(Place::new());
    let lowers = place.join("lowers");
    make_layers(&lowers, &place.join("upper"));
    let overlay = or_skip!(mount(&place, &lowers));
    let large = overlay.lower.join("bottom/deep/er/large");
    for size in ["4k", "1M", "20M"] {
        for state in ["cold", "warm"] {
            if state == "cold" {
                crate::setting::evict(&large);
            }
            let mut dd = Command::new("dd");
            dd.arg(format!(
                "if={}",
                overlay.merged.join("deep/er/large").display()
            ));
            let recorded = record(dd.args(["of=/dev/null", "status=none", &format!("bs={size}")]));
            let found = recorded.pages_below(place.path());
            let expected = [(large.clone(), vec![(0, 10_240)])];
            assert_eq!(found, expected.into_iter().collect(), "{size} {state}");
        }
    }
}

#[test]
fn mapped_files_are_recorded_in_their_layer() {
    let place = or_skip!(Place::new());
    let lowers = place.join("lowers");
    make_layers(&lowers, &place.join("upper"));
    let overlay = or_skip!(mount(&place, &lowers));
    let file = overlay.merged.join("common/bottom");
    let mut command = place.probe(&["map", file.to_str().unwrap(), "populate", ""]);
    let recorded = record(&mut command);
    let found = recorded.pages_below(place.path());
    let real = overlay.lower.join("bottom/common/bottom");
    let found: Vec<_> = found
        .into_iter()
        .filter(|(path, _)| !path.ends_with("probe"))
        .collect();
    assert_eq!(found, [(real, vec![(0, 5)])]);
}

#[test]
fn a_file_copied_up_is_recorded_where_it_is_read() {
    let place = or_skip!(Place::new());
    let lowers = place.join("lowers");
    make_layers(&lowers, &place.join("upper"));
    let overlay = or_skip!(mount(&place, &lowers));
    let file = overlay.merged.join("common/bottom");
    // Opening for writing copies it up.
    drop(fs::File::options().append(true).open(&file).unwrap());
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let recorded = record(Command::new("cat").arg(&file));
    assert_eq!(
        recorded.pages(overlay.upper.join("common/bottom")),
        [(0, 5)]
    );
    assert_eq!(
        recorded.pages(overlay.lower.join("bottom/common/bottom")),
        []
    );
    assert_eq!(recorded.unresolved, Default::default());
}

#[test]
fn a_merged_directory_is_looked_up_in_its_layers() {
    let place = or_skip!(Place::new());
    let lowers = place.join("lowers");
    make_layers(&lowers, &place.join("upper"));
    let overlay = or_skip!(mount(&place, &lowers));
    let common = overlay.merged.join("common");
    let none = common.join("none");
    let operations = [
        "list",
        common.to_str().unwrap(),
        "stat",
        none.to_str().unwrap(),
    ];
    let recorded = record(&mut place.probe(&operations));
    assert!(recorded.uses(&common).contains(Uses::LISTED));
    for layer in ["top/common", "bottom/common"] {
        let directory = overlay.lower.join(layer);
        assert_eq!(
            recorded.kind(&directory),
            Some(NodeKind::Directory),
            "{layer}"
        );
    }
    assert_eq!(
        recorded.kind(overlay.upper.join("common")),
        Some(NodeKind::Directory)
    );
    assert_eq!(recorded.kind(&none), Some(NodeKind::Absent));
}

/// The lower layers are on a file system that is mounted nowhere any more, as an image of a
/// container may be. They can be read through the overlay only.
#[test]
fn layers_out_of_sight_are_named_through_the_overlay() {
    let place = or_skip!(Place::new());
    let image = or_skip!(Image::new(&place, "image", None));
    let mounted = or_skip!(image.mount(&place.join("image-mounted")));
    let lowers = mounted.join("lowers");
    make_layers(&lowers, &place.join("upper"));
    let overlay = or_skip!(mount(&place, &lowers));
    mounted.detach();
    let file = overlay.merged.join("common/bottom");
    let recorded = record(Command::new("cat").arg(&file));
    assert_eq!(recorded.pages(&file), [(0, 5)], "{:?}", recorded.unresolved);
    assert!(
        recorded
            .uses(&file)
            .contains(Uses::OPENED.union(Uses::READ))
    );
}
