/* A prefill and a decode in C, for comparing with the same in C++. */
#ifndef SKIM_TESTS_CAPI_DECODE_H_
#define SKIM_TESTS_CAPI_DECODE_H_

#include "skim/skim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Hidden states and outputs, [layers of the model, tokens, dim]. */
typedef struct decode_task {
  const char* model;   /* Name of a synthetic model. */
  const char* kernels; /* Name of a kernel set. */
  int64_t prefill;     /* Tokens of the first batch. */
  int64_t tokens;      /* Of all; those behind `prefill` go one by one. */
  const uint16_t* x;
  uint16_t* out;
} decode_task;

int decode_in_c(const decode_task* task, skim_error* error);

#ifdef __cplusplus
}
#endif

#endif /* SKIM_TESTS_CAPI_DECODE_H_ */
