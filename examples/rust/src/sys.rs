//! What `skim.h` declares, as far as this crate uses it. `bindgen skim.h` writes all of it.
#![allow(non_camel_case_types)]
use std::ffi::{c_char, c_int};

#[repr(C)]
pub struct skim_error {
    pub code: c_int,
    pub message: [c_char; 512],
}
#[repr(C)]
pub struct skim_model_options {
    pub size: usize,
    pub layers: *const i32,
    pub layer_count: usize,
    pub kernels: *const c_char,
    pub ignore_unexpected: i64,
}
#[repr(C)]
pub struct skim_model_info {
    pub size: usize,
    pub kernels: [c_char; 32],
    pub dim: i64,
    pub layer_count: i64,
    pub weight_bytes: i64,
}
#[repr(C)]
pub struct skim_cache_options {
    pub size: usize,
    pub max_tokens: i64,
    pub max_sequences: i64,
    pub max_bytes: i64,
    pub rollback: i64,
    pub page_rows: i64,
    pub workspace_bytes: i64,
    pub threads: i64,
}
#[repr(C)]
pub struct skim_batch_entry {
    pub sequence: i64,
    pub tokens: i64,
}
/// skim_rows and skim_const_rows, which differ in `const` alone.
#[repr(C)]
pub struct skim_rows {
    pub data: *mut u16,
    pub rows: i64,
    pub width: i64,
    pub stride: i64,
}

pub enum skim_checkpoint {}
pub enum skim_model {}
pub enum skim_cache {}
pub enum skim_batch {}

type Error = *mut skim_error;

// Edition 2024 wants `unsafe extern`; Rust 1.82 and later take it in every edition.
#[link(name = "skim")]
unsafe extern "C" {
    pub fn skim_to_bf16(values: *const f32, bf16: *mut u16, count: usize, e: Error) -> c_int;
    pub fn skim_to_float32(bf16: *const u16, values: *mut f32, count: usize, e: Error) -> c_int;

    pub fn skim_checkpoint_open(path: *const c_char, new: *mut *mut skim_checkpoint, e: Error) -> c_int;
    pub fn skim_checkpoint_synthetic(name: *const c_char, seed: u64, new: *mut *mut skim_checkpoint, e: Error)
    -> c_int;
    pub fn skim_checkpoint_free(checkpoint: *mut skim_checkpoint);

    pub fn skim_model_create(
        checkpoint: *const skim_checkpoint,
        options: *const skim_model_options,
        new: *mut *mut skim_model,
        e: Error,
    ) -> c_int;
    pub fn skim_model_get_info(model: *const skim_model, info: *mut skim_model_info, e: Error) -> c_int;
    pub fn skim_model_layers(
        model: *const skim_model,
        layers: *mut i32,
        capacity: usize,
        count: *mut usize,
        e: Error,
    ) -> c_int;
    pub fn skim_model_free(model: *mut skim_model);

    pub fn skim_cache_create(
        model: *const skim_model,
        options: *const skim_cache_options,
        new: *mut *mut skim_cache,
        e: Error,
    ) -> c_int;
    pub fn skim_cache_add(cache: *mut skim_cache, sequence: *mut i64, e: Error) -> c_int;
    pub fn skim_cache_remove(cache: *mut skim_cache, sequence: i64, e: Error) -> c_int;
    pub fn skim_cache_length(cache: *const skim_cache, sequence: i64, tokens: *mut i64, e: Error) -> c_int;
    pub fn skim_cache_fork(cache: *mut skim_cache, sequence: i64, tokens: i64, child: *mut i64, e: Error) -> c_int;
    pub fn skim_cache_free(cache: *mut skim_cache);

    pub fn skim_batch_begin(
        cache: *mut skim_cache,
        entries: *const skim_batch_entry,
        count: usize,
        new: *mut *mut skim_batch,
        e: Error,
    ) -> c_int;
    pub fn skim_batch_forward(
        batch: *mut skim_batch,
        layer: i32,
        x: *const skim_rows,
        out: *const skim_rows,
        e: Error,
    ) -> c_int;
    pub fn skim_batch_commit(batch: *mut skim_batch, e: Error) -> c_int;
    pub fn skim_batch_commit_sequence(batch: *mut skim_batch, sequence: i64, accepted: i64, e: Error) -> c_int;
    pub fn skim_batch_free(batch: *mut skim_batch);
}
