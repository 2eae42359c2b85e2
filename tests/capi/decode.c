#include "decode.h"

#define MOST_LAYERS 16

typedef struct decoder {
  skim_model* model;
  skim_cache* cache;
  int32_t layers[MOST_LAYERS];
  size_t layer_count;
  int64_t dim;
  int64_t sequence;
} decoder;

static int run_layers(const decode_task* task, const decoder* d, skim_batch* batch, int64_t first, int64_t count,
                      skim_error* error) {
  for (size_t i = 0; i < d->layer_count; ++i) {
    const int64_t offset = ((int64_t)i * task->tokens + first) * d->dim;
    const skim_const_rows x = {.data = task->x + offset, .rows = count, .width = d->dim};
    const skim_rows out = {.data = task->out + offset, .rows = count, .width = d->dim};
    const int code = skim_batch_forward(batch, d->layers[i], &x, &out, error);
    if (code != SKIM_OK) return code;
  }
  return skim_batch_commit(batch, error);
}

static int feed(const decode_task* task, const decoder* d, int64_t first, int64_t count, skim_error* error) {
  const skim_batch_entry entry = {.sequence = d->sequence, .tokens = count};
  skim_batch* batch = NULL;
  int code = skim_batch_begin(d->cache, &entry, 1, &batch, error);
  if (code == SKIM_OK) code = run_layers(task, d, batch, first, count, error);
  skim_batch_free(batch);
  return code;
}

static int feed_all(const decode_task* task, const decoder* d, skim_error* error) {
  int code = feed(task, d, 0, task->prefill, error);
  for (int64_t t = task->prefill; code == SKIM_OK && t < task->tokens; ++t) code = feed(task, d, t, 1, error);
  return code;
}

static int make(const decode_task* task, decoder* d, skim_error* error) {
  const skim_model_options model_options = {.size = sizeof model_options, .kernels = task->kernels};
  const skim_cache_options cache_options = {.size = sizeof cache_options, .max_tokens = 256, .page_rows = 16};
  skim_model_info info = {.size = sizeof info};
  skim_checkpoint* checkpoint = NULL;
  int code = skim_checkpoint_synthetic(task->model, 0, &checkpoint, error);
  if (code == SKIM_OK) code = skim_model_create(checkpoint, &model_options, &d->model, error);
  skim_checkpoint_free(checkpoint);
  if (code == SKIM_OK) code = skim_model_get_info(d->model, &info, error);
  if (code == SKIM_OK) code = skim_model_layers(d->model, d->layers, MOST_LAYERS, &d->layer_count, error);
  if (code == SKIM_OK) code = skim_cache_create(d->model, &cache_options, &d->cache, error);
  if (code == SKIM_OK) code = skim_cache_add(d->cache, &d->sequence, error);
  d->dim = info.dim;
  return code;
}

int decode_in_c(const decode_task* task, skim_error* error) {
  decoder d = {.model = NULL};
  int code = make(task, &d, error);
  if (code == SKIM_OK) code = feed_all(task, &d, error);
  skim_cache_free(d.cache);
  skim_model_free(d.model);
  return code;
}
