//! DeepSeek sparse attention on CPUs, from Rust: handles that free themselves, borrows that keep the threading rules.
//!
//! A cache is used by one thread at a time, which `&mut self` says; models and checkpoints by any number of threads.
//! Hidden states are rows of bf16 bits, `[tokens, dim]`.
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

pub mod sys;

/// The library's sentence: the thing, what was found and what was expected.
#[derive(Debug, Clone)]
pub struct Error {
    /// Of `enum skim_code`.
    pub code: i32,
    pub message: String,
}
impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}
pub type Result<T> = std::result::Result<T, Error>;

/// SKIM_INVALID_ARGUMENT.
const INVALID_ARGUMENT: i32 = 1;

fn refuse<T>(message: String) -> Result<T> {
    Err(Error { code: INVALID_ARGUMENT, message })
}

/// Calls a function of the library, which gets a place for its error.
fn call(function: impl FnOnce(*mut sys::skim_error) -> c_int) -> Result<()> {
    let mut error = sys::skim_error { code: 0, message: [0; 512] };
    match function(&mut error) {
        0 => Ok(()),
        code => {
            let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
            Err(Error { code, message: message.to_string_lossy().into_owned() })
        }
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| refuse(format!("{text:?} has a NUL inside")))
}

/// A handle that frees itself.
struct Handle<T>(*mut T, unsafe extern "C" fn(*mut T));
impl<T> Handle<T> {
    fn new(
        free: unsafe extern "C" fn(*mut T),
        create: impl FnOnce(*mut *mut T, *mut sys::skim_error) -> c_int,
    ) -> Result<Self> {
        let mut handle = null_mut();
        call(|e| create(&mut handle, e))?;
        Ok(Self(handle, free))
    }
}
impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        unsafe { (self.1)(self.0) }
    }
}

/// float32 values rounded to bf16, nearest even.
pub fn to_bf16(values: &[f32]) -> Vec<u16> {
    let mut bits = vec![0; values.len()];
    let code = unsafe { sys::skim_to_bf16(values.as_ptr(), bits.as_mut_ptr(), bits.len(), null_mut()) };
    assert_eq!(code, 0);
    bits
}

/// The same values as float32.
pub fn to_f32(bits: &[u16]) -> Vec<f32> {
    let mut values = vec![0.0; bits.len()];
    let code = unsafe { sys::skim_to_float32(bits.as_ptr(), values.as_mut_ptr(), bits.len(), null_mut()) };
    assert_eq!(code, 0);
    values
}

/// Where weights come from.
pub struct Checkpoint(Handle<sys::skim_checkpoint>);
unsafe impl Send for Checkpoint {}
unsafe impl Sync for Checkpoint {}
impl Checkpoint {
    /// A folder with config.json and safetensors shards, one safetensors file, or a case file.
    pub fn open(path: &str) -> Result<Self> {
        let path = c_text(path)?;
        let free = sys::skim_checkpoint_free;
        Ok(Self(Handle::new(free, |new, e| unsafe { sys::skim_checkpoint_open(path.as_ptr(), new, e) })?))
    }
    /// Made-up weights: "v41-flash", "v32" (released shapes), "v41-tiny", "v32-tiny".
    pub fn synthetic(name: &str, seed: u64) -> Result<Self> {
        let name = c_text(name)?;
        let free = sys::skim_checkpoint_free;
        Ok(Self(Handle::new(free, |new, e| unsafe { sys::skim_checkpoint_synthetic(name.as_ptr(), seed, new, e) })?))
    }
}

/// Layers packed for one kernel set.
pub struct Model {
    handle: Handle<sys::skim_model>,
    layers: Vec<i32>,
    kernels: String,
    dim: usize,
}
unsafe impl Send for Model {}
unsafe impl Sync for Model {}
impl Model {
    /// All backbone layers, with the best kernel set of this machine (or that of SKIM_KERNELS).
    pub fn new(checkpoint: &Checkpoint) -> Result<Self> {
        Self::with_layers(checkpoint, &[])
    }
    /// These layers, ascending; none: all of the backbone.
    pub fn with_layers(checkpoint: &Checkpoint, layers: &[i32]) -> Result<Self> {
        let options = sys::skim_model_options {
            size: size_of::<sys::skim_model_options>(),
            layers: layers.as_ptr(),
            layer_count: layers.len(),
            kernels: null(),
            ignore_unexpected: 0,
        };
        let handle = Handle::new(sys::skim_model_free, |new, e| unsafe {
            sys::skim_model_create(checkpoint.0.0, &options, new, e)
        })?;
        let mut info: sys::skim_model_info = unsafe { std::mem::zeroed() };
        info.size = size_of::<sys::skim_model_info>();
        call(|e| unsafe { sys::skim_model_get_info(handle.0, &mut info, e) })?;
        let mut layers = vec![0; info.layer_count as usize];
        let mut count = 0;
        call(|e| unsafe { sys::skim_model_layers(handle.0, layers.as_mut_ptr(), layers.len(), &mut count, e) })?;
        let kernels = unsafe { CStr::from_ptr(info.kernels.as_ptr()) }.to_string_lossy().into_owned();
        Ok(Self { handle, layers, kernels, dim: info.dim as usize })
    }
    pub fn layers(&self) -> &[i32] {
        &self.layers
    }
    /// Name of the kernel set in use.
    pub fn kernels(&self) -> &str {
        &self.kernels
    }
    /// Width of a hidden state.
    pub fn dim(&self) -> usize {
        self.dim
    }
}

/// Names a sequence of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(i64);

/// Key-value caches of many sequences.
pub struct Cache {
    handle: Handle<sys::skim_cache>,
    dim: usize,
}
unsafe impl Send for Cache {}
impl Cache {
    /// `max_tokens`: longest sequence. `rollback`: latest tokens of a sequence that can be taken back.
    pub fn new(model: &Model, max_tokens: i64, rollback: i64) -> Result<Self> {
        let options = sys::skim_cache_options {
            size: size_of::<sys::skim_cache_options>(),
            max_tokens,
            max_sequences: 0,
            max_bytes: 0,
            rollback,
            page_rows: 0,
            workspace_bytes: 0,
            threads: 0,
        };
        let handle = Handle::new(sys::skim_cache_free, |new, e| unsafe {
            sys::skim_cache_create(model.handle.0, &options, new, e)
        })?;
        Ok(Self { handle, dim: model.dim })
    }
    /// A new, empty sequence.
    pub fn add(&mut self) -> Result<Sequence> {
        let mut id = 0;
        call(|e| unsafe { sys::skim_cache_add(self.handle.0, &mut id, e) })?;
        Ok(Sequence(id))
    }
    pub fn remove(&mut self, sequence: Sequence) -> Result<()> {
        call(|e| unsafe { sys::skim_cache_remove(self.handle.0, sequence.0, e) })
    }
    /// Committed tokens.
    pub fn length(&self, sequence: Sequence) -> Result<i64> {
        let mut tokens = 0;
        call(|e| unsafe { sys::skim_cache_length(self.handle.0, sequence.0, &mut tokens, e) })?;
        Ok(tokens)
    }
    /// A new sequence that begins with the first `tokens` tokens of another.
    pub fn fork(&mut self, sequence: Sequence, tokens: i64) -> Result<Sequence> {
        let mut child = 0;
        call(|e| unsafe { sys::skim_cache_fork(self.handle.0, sequence.0, tokens, &mut child, e) })?;
        Ok(Sequence(child))
    }
    /// New tokens for some sequences. The cache is borrowed until the batch is committed or dropped.
    pub fn begin(&mut self, entries: &[(Sequence, i64)]) -> Result<Batch<'_>> {
        let entries: Vec<_> =
            entries.iter().map(|&(sequence, tokens)| sys::skim_batch_entry { sequence: sequence.0, tokens }).collect();
        let handle = Handle::new(sys::skim_batch_free, |new, e| unsafe {
            sys::skim_batch_begin(self.handle.0, entries.as_ptr(), entries.len(), new, e)
        })?;
        Ok(Batch { handle, dim: self.dim, cache: PhantomData })
    }
}

/// Tokens under way. Dropped without commit, it is as if it had never begun.
pub struct Batch<'a> {
    handle: Handle<sys::skim_batch>,
    dim: usize,
    cache: PhantomData<&'a mut Cache>,
}
impl Batch<'_> {
    fn rows(&self, states: *mut u16, count: usize) -> Result<sys::skim_rows> {
        if count % self.dim != 0 {
            return refuse(format!("{count} values are no whole rows of {}", self.dim));
        }
        Ok(sys::skim_rows { data: states, rows: (count / self.dim) as i64, width: self.dim as i64, stride: 0 })
    }
    /// Attention of one layer. x and out: `[tokens, dim]` in bf16, in the order of the entries.
    pub fn forward(&mut self, layer: i32, x: &[u16], out: &mut [u16]) -> Result<()> {
        let x = self.rows(x.as_ptr().cast_mut(), x.len())?; // skim only reads it
        let out = self.rows(out.as_mut_ptr(), out.len())?;
        call(|e| unsafe { sys::skim_batch_forward(self.handle.0, layer, &x, &out, e) })
    }
    /// The same, with the output in place of the input.
    pub fn forward_in_place(&mut self, layer: i32, states: &mut [u16]) -> Result<()> {
        let rows = self.rows(states.as_mut_ptr(), states.len())?;
        call(|e| unsafe { sys::skim_batch_forward(self.handle.0, layer, &rows, &rows, e) })
    }
    /// Makes all tokens part of their sequences.
    pub fn commit(self) -> Result<()> {
        call(|e| unsafe { sys::skim_batch_commit(self.handle.0, e) })
    }
    /// Makes the first `accepted` tokens of one sequence part of it, as if only those had been fed.
    pub fn commit_sequence(&mut self, sequence: Sequence, accepted: i64) -> Result<()> {
        call(|e| unsafe { sys::skim_batch_commit_sequence(self.handle.0, sequence.0, accepted, e) })
    }
}
