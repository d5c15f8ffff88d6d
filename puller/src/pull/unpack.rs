//! The layers of an image, one upon the other, on a thread of its own.

use std::{collections::VecDeque, sync::Arc};

use super::plan::{Layer, LayerKind, Pulled};
use crate::{
    domain::{Activity, Digest},
    error::Fault,
    layer::{Inflate, Limits, Summary, Tree, TreeOptions},
    store::{
        Blob, TreeDir,
        crash::{self, Point},
    },
};

/// Layers whose inflating has begun: the one that is being applied, and the next one, so that the
/// second core has work at the seams. Each costs its window and its buffers.
const INFLATE_AHEAD: usize = 2;

/// Unpacks all layers into a new private tree.
pub(super) fn unpack(
    pulled: &Pulled,
    blobs: &[Arc<Blob>],
    dir: TreeDir,
    limits: &Limits,
    activity: &Arc<Activity>,
) -> Result<(TreeDir, Summary), Fault> {
    let options = TreeOptions {
        selection: (!pulled.selected.is_empty()).then(|| pulled.selected.clone()),
        refuse_escaping_links: pulled.unpack.refuse_escaping_links,
    };
    let mut tree = Tree::new(dir.open_root()?, options, limits.clone(), Arc::clone(activity))?;
    let mut coming = pulled.layers.iter().zip(blobs);
    let mut begun: VecDeque<(&Layer, Source)> = VecDeque::new();
    loop {
        while begun.len() < INFLATE_AHEAD
            && let Some((layer, blob)) = coming.next()
        {
            begun.push_back((layer, Source::open(layer, blob, limits, activity)?));
        }
        let Some((layer, source)) = begun.pop_front() else {
            break;
        };
        match source {
            Source::Archive { inflate, diff_id } => {
                tree.apply(inflate, &layer.digest.to_string(), diff_id.as_ref())?;
            }
            Source::File { title, blob } => tree.put_file(&title, blob.reader(Arc::clone(activity)))?,
        }
        crash::at(Point::LayerApplied);
    }
    Ok((dir, tree.finish()?))
}

enum Source {
    Archive {
        inflate: Inflate,
        diff_id: Option<Digest>,
    },
    File {
        title: String,
        blob: Arc<Blob>,
    },
}

impl Source {
    fn open(
        layer: &Layer,
        blob: &Arc<Blob>,
        limits: &Limits,
        activity: &Arc<Activity>,
    ) -> Result<Self, Fault> {
        Ok(match &layer.kind {
            LayerKind::Archive { diff_id } => Self::Archive {
                inflate: Inflate::spawn(blob.reader(Arc::clone(activity)), limits, Arc::clone(activity))?,
                diff_id: diff_id.clone(),
            },
            LayerKind::File { title } => Self::File {
                title: title.clone(),
                blob: Arc::clone(blob),
            },
        })
    }
}
