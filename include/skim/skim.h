/* skim from C, and from whatever can call C: DeepSeek sparse attention on CPUs. C11, also valid C++. docs/c_api.md.
 *
 * Codes. Every function but skim_version and those that free returns a skim_code: SKIM_OK, or why nothing was done. The
 * last parameter, which may be NULL, gets the code and a sentence that names the thing, what was found and what was
 * expected. After an error, objects are as they were before; a handle to be returned is NULL, other outputs are
 * untouched. Nothing is printed, nothing aborts.
 *
 * Sizes. Structs that may grow begin with `size`, which the caller sets to sizeof of the struct. A smaller one, from an
 * older header, counts as if the rest were 0; a larger one is refused if bytes this library does not know are not 0.
 * In options 0 always means the default, so `skim_cache_options options = {.size = sizeof options}` holds them all.
 * Structs to be filled in get as much as `size` says. Structs without `size` (skim_error, skim_text, skim_length_range,
 * skim_batch_entry, skim_rows, skim_const_rows) keep their layout for good: what needs more fields will be a struct and
 * a function of other names.
 *
 * Ownership. Whatever a function returns through a handle is the caller's to free, once, in any order: a handle keeps
 * alive what it needs. Freeing NULL does nothing. Everything passed in is read before the call returns, not kept.
 *
 * Threads. Checkpoints and models may be used from any number of threads. One thread at a time may use a cache: call
 * any function of it, begin, commit or free a batch. Forward calls on different batches may run at the same time.
 *
 * Hidden states are bf16, the upper 16 bits of a float32: skim_to_bf16 and skim_to_float32 convert. */
#ifndef SKIM_SKIM_H_
#define SKIM_SKIM_H_

#include <stddef.h>
#include <stdint.h>

#define SKIM_VERSION_MAJOR 0
#define SKIM_VERSION_MINOR 1
#define SKIM_VERSION_PATCH 0
#define SKIM_VERSION (SKIM_VERSION_MAJOR * 10000 + SKIM_VERSION_MINOR * 100 + SKIM_VERSION_PATCH)

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* SKIM_VERSION of the library that runs, which may be newer than this header. */
int skim_version(void);

/* Numbers are kept from version to version. */
enum skim_code {
  SKIM_OK = 0,
  SKIM_INVALID_ARGUMENT = 1, /* A value passed by the caller does not fit (shape, position, name, option, NULL). */
  SKIM_BAD_FILE = 2,         /* A file is truncated, damaged or not of the format it claims. */
  SKIM_BAD_CONFIG = 3,       /* A model configuration is incomplete or asks for something that cannot work. */
  SKIM_TENSOR_MISMATCH = 4,  /* A checkpoint lacks a tensor, or holds one of the wrong shape or dtype. */
  SKIM_WRONG_ORDER = 5,    /* A call came too early or twice: a layer before its source, a commit before all layers. */
  SKIM_LIMIT_EXCEEDED = 6, /* A limit that the caller set (tokens, sequences, bytes) would be exceeded. */
  SKIM_OUT_OF_MEMORY = 7,  /* The operating system refused memory. */
  SKIM_IO = 8,             /* The operating system refused to open, read or write. */
  SKIM_UNAVAILABLE = 9,    /* A named kernel set does not exist or does not run on this machine. */
  SKIM_CANCELLED = 10,     /* Unused here. */
  SKIM_INTERNAL = 100      /* A defect of the library. */
};

typedef struct skim_error {
  int code;
  char message[512]; /* One line, ends with NUL; a longer one is cut off. Empty with SKIM_OK. */
} skim_error;

/* Text into a buffer of the caller. */
typedef struct skim_text {
  char* data;      /* May be NULL if capacity is 0. */
  size_t capacity; /* Bytes at data. Text that does not fit is cut off; it ends with NUL. */
  size_t length;   /* Out: of the whole text, without NUL. */
} skim_text;

typedef struct skim_checkpoint skim_checkpoint;
typedef struct skim_model skim_model;
typedef struct skim_cache skim_cache;
typedef struct skim_batch skim_batch;

/* ---- kernel sets --------------------------------------------------------------------------------------------------
 */

typedef struct skim_kernel_set {
  size_t size;
  char name[32];
  char description[128];
  int64_t available; /* 1 if this machine can run it. */
  char why_not[128]; /* Why it cannot; empty if it can. */
} skim_kernel_set;

/* How many there are. */
int skim_kernel_set_count(size_t* count, skim_error* error);
/* The best is number 0. */
int skim_kernel_set_info(size_t number, skim_kernel_set* info, skim_error* error);

/* ---- numbers ------------------------------------------------------------------------------------------------------
 */

/* Rounds `count` float32 values to bf16: to nearest, ties to the even one; NaN stays NaN. The two arrays must not
 * overlap. SKIM_INVALID_ARGUMENT. */
int skim_to_bf16(const float* values, uint16_t* bf16, size_t count, skim_error* error);
/* The same values as float32, exactly. The two arrays must not overlap. SKIM_INVALID_ARGUMENT. */
int skim_to_float32(const uint16_t* bf16, float* values, size_t count, skim_error* error);

/* ---- checkpoints --------------------------------------------------------------------------------------------------
 */

/* path: a directory with config.json and safetensors shards, one safetensors file with config.json beside it, or a case
 * file. Reads headers only. SKIM_IO, SKIM_BAD_FILE, SKIM_BAD_CONFIG. */
int skim_checkpoint_open(const char* path, skim_checkpoint** checkpoint, skim_error* error);
/* Made-up weights, the same for the same seed. name: "v41-flash", "v32" (released shapes), "v41-tiny", "v32-tiny". */
int skim_checkpoint_synthetic(const char* name, uint64_t seed, skim_checkpoint** checkpoint, skim_error* error);
void skim_checkpoint_free(skim_checkpoint* checkpoint);

typedef struct skim_config {
  size_t size;
  char model_type[32];     /* "deepseek_v41", "deepseek_v32" */
  int64_t dim;             /* Width of the hidden state. */
  int64_t backbone_layers; /* Layers 0, 1, ..., backbone_layers - 1. */
  int64_t layers;          /* The same with draft layers, which follow. */
} skim_config;

int skim_checkpoint_config(const skim_checkpoint* checkpoint, skim_config* config, skim_error* error);

typedef struct skim_layer_role {
  size_t size;
  char role[32];            /* "window", "full", "reindex", "reuse" */
  int64_t ratio;            /* Tokens per compressed row; 0: none. */
  int64_t kv_source;        /* Layer whose rows are attended to, may be itself; -1: none. */
  int64_t index_source;     /* Layer whose selection is used, may be itself; -1: none. */
  int64_t candidate_source; /* Layer whose candidate blocks bound the selection; -1: none. */
} skim_layer_role;

/* What a layer does, and the layers that must be in a model with it. */
int skim_checkpoint_layer_role(const skim_checkpoint* checkpoint, int32_t layer, skim_layer_role* role,
                               skim_error* error);

typedef struct skim_cache_cost {
  size_t size;
  double bytes_per_token; /* Growth with context. */
  int64_t bytes_fixed;    /* Per sequence. */
} skim_cache_cost;

/* What one sequence costs over these layers, with skim_cache_options.rollback as given. */
int skim_checkpoint_cache_cost(const skim_checkpoint* checkpoint, const int32_t* layers, size_t layer_count,
                               int64_t rollback, skim_cache_cost* cost, skim_error* error);

/* ---- models -------------------------------------------------------------------------------------------------------
 */

typedef struct skim_model_options {
  size_t size;
  const int32_t* layers;     /* The sources of each must be among them. */
  size_t layer_count;        /* 0: all backbone layers. */
  const char* kernels;       /* Name of a kernel set; NULL: environment variable SKIM_KERNELS, or the best here. */
  int64_t ignore_unexpected; /* 1: ignore attention tensors that a layer has no use for, instead of refusing them. */
} skim_model_options;

/* Packs the weights of the layers; needs the checkpoint no longer. options may be NULL.
 * SKIM_TENSOR_MISMATCH, SKIM_INVALID_ARGUMENT, SKIM_UNAVAILABLE, SKIM_OUT_OF_MEMORY, and as skim_checkpoint_open. */
int skim_model_create(const skim_checkpoint* checkpoint, const skim_model_options* options, skim_model** model,
                      skim_error* error);
void skim_model_free(skim_model* model);

typedef struct skim_model_info {
  size_t size;
  char kernels[32];     /* Name of the kernel set in use. */
  int64_t dim;          /* Width of the hidden state. */
  int64_t layer_count;  /* Layers of the model. */
  int64_t weight_bytes; /* Held by packed weights. */
} skim_model_info;

int skim_model_get_info(const skim_model* model, skim_model_info* info, skim_error* error);
/* The layers, ascending. layers has room for `capacity`, the rest is cut off; count gets how many there are. */
int skim_model_layers(const skim_model* model, int32_t* layers, size_t capacity, size_t* count, skim_error* error);

/* ---- caches -------------------------------------------------------------------------------------------------------
 */

typedef struct skim_cache_options {
  size_t size;
  int64_t max_tokens;      /* Longest sequence; 0: 1048576. V3.2: decides on YaRN. */
  int64_t max_sequences;   /* Sequences at one time; 0: 65536. */
  int64_t max_bytes;       /* Limit for skim_cache_bytes; 0: none. */
  int64_t rollback;        /* Latest tokens of a sequence that can be taken back. */
  int64_t page_rows;       /* Rows are allocated this many at a time; 0: 256. */
  int64_t workspace_bytes; /* Wanted for activations and scores of a forward call; 0: 256 MiB. */
  int64_t threads;         /* Of a forward call; 0: one per processor. */
} skim_cache_options;

typedef struct skim_length_range {
  int64_t first, last; /* Lengths first, first + 1, ..., last. */
} skim_length_range;

typedef struct skim_batch_entry {
  int64_t sequence;
  int64_t tokens; /* To append. */
} skim_batch_entry;

/* options may be NULL. SKIM_INVALID_ARGUMENT for options out of range. */
int skim_cache_create(const skim_model* model, const skim_cache_options* options, skim_cache** cache,
                      skim_error* error);
void skim_cache_free(skim_cache* cache);

/* A new, empty sequence; its number is never used again in this cache. SKIM_LIMIT_EXCEEDED. */
int skim_cache_add(skim_cache* cache, int64_t* sequence, skim_error* error);
/* Frees a sequence. SKIM_WRONG_ORDER if it is in a batch. */
int skim_cache_remove(skim_cache* cache, int64_t sequence, skim_error* error);
/* Committed tokens. */
int skim_cache_length(const skim_cache* cache, int64_t sequence, int64_t* tokens, skim_error* error);
/* A new sequence that begins with the first `tokens` tokens of another and shares their pages. SKIM_INVALID_ARGUMENT
 * naming the lengths that can be restored, SKIM_LIMIT_EXCEEDED, SKIM_WRONG_ORDER if it is in a batch. */
int skim_cache_fork(skim_cache* cache, int64_t sequence, int64_t tokens, int64_t* child, skim_error* error);
/* Forgets the tokens behind the first `tokens`. Errors as of skim_cache_fork. */
int skim_cache_truncate(skim_cache* cache, int64_t sequence, int64_t tokens, skim_error* error);
/* Lengths to which a sequence can be truncated and at which it can be forked, ascending. ranges has room for
 * `capacity`, the rest is cut off; count gets how many there are. */
int skim_cache_restorable(const skim_cache* cache, int64_t sequence, skim_length_range* ranges, size_t capacity,
                          size_t* count, skim_error* error);
/* Writes a sequence to a file: at any moment there is the old file or the whole new one. SKIM_IO, SKIM_WRONG_ORDER. */
int skim_cache_save(const skim_cache* cache, int64_t sequence, const char* path, skim_error* error);
/* A new sequence from such a file of the same model; everything is checked. Pages stay in the file until they are
 * written to, so it may be replaced or deleted, but not changed in place. SKIM_IO, SKIM_BAD_FILE, SKIM_LIMIT_EXCEEDED.
 */
int skim_cache_load(skim_cache* cache, const char* path, int64_t* sequence, skim_error* error);
/* Why skim_batch_begin would refuse these entries now; problem->length is 0 if it would not. */
int skim_cache_admission_problem(const skim_cache* cache, const skim_batch_entry* entries, size_t count,
                                 skim_text* problem, skim_error* error);
/* Bytes that sequences occupy now. */
int skim_cache_bytes(const skim_cache* cache, int64_t* bytes, skim_error* error);
/* Bytes of batches and scratch that come on top. Not while a forward call runs. */
int skim_cache_workspace_bytes(const skim_cache* cache, int64_t* bytes, skim_error* error);

/* ---- batches ------------------------------------------------------------------------------------------------------
 */

/* Row r of hidden states is `width` bf16 values at data + r * stride. A stride of 0 stands for `width`. */
typedef struct skim_rows {
  uint16_t* data;
  int64_t rows, width;
  int64_t stride; /* In elements. */
} skim_rows;

typedef struct skim_const_rows {
  const uint16_t* data;
  int64_t rows, width;
  int64_t stride; /* In elements. */
} skim_const_rows;

/* Starts a batch: new tokens for some sequences. Everything is checked and allocated first. SKIM_INVALID_ARGUMENT,
 * SKIM_WRONG_ORDER (sequence in another batch), SKIM_LIMIT_EXCEEDED, SKIM_OUT_OF_MEMORY. */
int skim_batch_begin(skim_cache* cache, const skim_batch_entry* entries, size_t count, skim_batch** batch,
                     skim_error* error);
/* Freed without commit, it is as if it had never begun. */
void skim_batch_free(skim_batch* batch);
/* Of all its sequences together. */
int skim_batch_tokens(const skim_batch* batch, int64_t* tokens, skim_error* error);
/* Attention of one layer for all tokens, in the order of the entries. x and out: [tokens, dim]; out may be the same
 * rows as x, but not overlap them otherwise. SKIM_INVALID_ARGUMENT, SKIM_WRONG_ORDER (a source layer has not run, or
 * this one has), SKIM_OUT_OF_MEMORY; then the layer can be tried again (with x restored, if out was the same rows). */
int skim_batch_forward(skim_batch* batch, int32_t layer, const skim_const_rows* x, const skim_rows* out,
                       skim_error* error);
/* Makes the tokens part of their sequences. SKIM_WRONG_ORDER naming a layer that has not run. */
int skim_batch_commit(skim_batch* batch, skim_error* error);
/* Makes the first `accepted` tokens of one sequence part of it, as if only those had been fed, and takes it out of the
 * batch. No layer can run afterwards. SKIM_WRONG_ORDER, SKIM_INVALID_ARGUMENT, SKIM_LIMIT_EXCEEDED (more rejected than
 * skim_cache_options.rollback; V3.2 can reject any number). */
int skim_batch_commit_sequence(skim_batch* batch, int64_t sequence, int64_t accepted, skim_error* error);

/* ---- verify -------------------------------------------------------------------------------------------------------
 */

typedef struct skim_verify_options {
  size_t size;
  const char* kernels;            /* As in skim_model_options. */
  const double* tolerance;        /* For every numeric tensor; NULL: the standard ones. */
  const skim_checkpoint* weights; /* Instead of those in the file; NULL: those. */
  int64_t threads;                /* As in skim_cache_options. */
} skim_verify_options;

/* Replays a case file (docs/cases.md). passed: 1 if every recorded tensor holds, else 0. report: a table, with the
 * first call, layer and tensor that fails. options and report may be NULL. Errors: files that cannot be replayed, and
 * those of skim_model_create. */
int skim_verify(const char* path, const skim_verify_options* options, int32_t* passed, skim_text* report,
                skim_error* error);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#endif /* SKIM_SKIM_H_ */
