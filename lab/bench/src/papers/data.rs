//! The data of a race: created once, and kept in a folder.
//!
//! ```text
//! DIR/rows/za.npy, zr.npy ..        row-major
//! DIR/blocks-512/za, zr ..          blocked, and za-framed; their layout.json is written last
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use syncline_store::{
    Block, DataDir, Element, Layout, Matrix, NewFile, Shape, convert, dir::write_layout_json,
};
use syncline_wave::kernels::Lk23;

use crate::disk;
use crate::error::{Failure, Result, failed};

/// The memory for a conversion of a layout, in bytes.
const MEMORY: u64 = 128 << 20;

/// The order of the elements of the field. Coefficients are blocked when it is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Data {
    RowMajor,
    Blocked,
    Framed,
}

impl Data {
    pub(crate) fn layout(self, block: Block) -> Layout {
        match self {
            Data::RowMajor => Layout::RowMajor,
            Data::Blocked => Layout::Blocked(block),
            Data::Framed => Layout::Framed { block, thickness: 1 },
        }
    }
}

/// The field and the coefficients.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) field: Arc<Matrix>,
    pub(crate) coefficients: [Arc<Matrix>; 5],
}

/// The folder of a race.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) shape: Shape,
}

impl Folder {
    pub(crate) fn new(path: &Path, shape: Shape) -> Self {
        Folder { path: path.to_owned(), shape }
    }

    fn rows(&self) -> PathBuf {
        self.path.join("rows")
    }

    fn blocks(&self, side: usize) -> PathBuf {
        self.path.join(format!("blocks-{side}"))
    }

    /// Creates the missing files.
    pub(crate) fn make(&self, sides: &[usize]) -> Result<()> {
        let rows = self.rows();
        make_folder(&rows)?;
        for (n, name) in ["za"].into_iter().chain(Lk23::COEFFICIENTS).enumerate() {
            let path = rows.join(format!("{name}.npy"));
            if !path.exists() {
                eprintln!("{} of {}", path.display(), self.shape);
                disk::make(&path, n, self.shape)?;
            }
            let found = Matrix::<f64>::open(&path)?.shape();
            if found != self.shape {
                let (folder, asked) = (self.path.display(), self.shape);
                return Err(format!(
                    "the data in {folder} are {found}, not {asked}: take another folder"
                )
                .into());
            }
        }
        sides.iter().try_for_each(|side| self.make_blocks(*side))
    }

    fn make_blocks(&self, side: usize) -> Result<()> {
        let folder = self.blocks(side);
        if folder.join("layout.json").exists() {
            return Ok(());
        }
        make_folder(&folder)?;
        eprintln!("blocks of {side} x {side}");
        let block = self.block(side);
        let rows = DataDir::open(&self.rows())?;
        let framed = ("za-framed", "za", Data::Framed);
        let all =
            ["za"].into_iter().chain(Lk23::COEFFICIENTS).map(|name| (name, name, Data::Blocked));
        let mut arrays = std::collections::BTreeMap::new();
        for (name, from, data) in all.chain([framed]) {
            let layout = data.layout(block);
            let bytes = Matrix::<f64>::file_bytes(false, self.shape, layout)?;
            let new = NewFile::create(&folder.join(name), bytes)?;
            convert(
                &rows.matrix::<f64>(from)?,
                &mut Matrix::create(&new, false, self.shape, layout)?,
                MEMORY,
            )?;
            new.commit()?;
            arrays.insert(name.to_owned(), (layout, f64::TYPE));
        }
        Ok(write_layout_json(&folder, self.shape, &arrays)?)
    }

    pub(crate) fn block(&self, side: usize) -> Block {
        Block::new(side, side).clipped(self.shape)
    }

    /// Opens the matrices; `side` is the side of the blocks.
    pub(crate) fn open(&self, data: Data, side: usize) -> Result<Inputs> {
        let folder = match data {
            Data::RowMajor => self.rows(),
            Data::Blocked | Data::Framed => self.blocks(side),
        };
        let folder = DataDir::open(&folder)?;
        let field = if data == Data::Framed { "za-framed" } else { "za" };
        let open = |name: &str| Ok::<_, Failure>(Arc::new(folder.matrix::<f64>(name)?));
        let [a, b, c, d, e] = Lk23::COEFFICIENTS;
        Ok(Inputs {
            field: open(field)?,
            coefficients: [open(a)?, open(b)?, open(c)?, open(d)?, open(e)?],
        })
    }

    /// Creates a file for a result, which never gets a name.
    pub(crate) fn result(&self, layout: Layout) -> Result<(NewFile, Matrix)> {
        let bytes = Matrix::<f64>::file_bytes(false, self.shape, layout)?;
        let new = NewFile::create(&self.path.join("result"), bytes)?;
        let matrix = Matrix::create(&new, false, self.shape, layout)?;
        Ok((new, matrix))
    }

    /// Drops all data from the page cache; returns the method used.
    pub(crate) fn drop_caches(&self) -> Result<&'static str> {
        disk::drop_caches(&self.path)
    }
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path)
        .map_err(|error| failed(&format!("make {}", path.display()), error))
}
