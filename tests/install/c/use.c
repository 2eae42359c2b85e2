/* A program outside of skim: it compares versions, makes a tiny model and reads an error. */
#include <skim/skim.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  skim_error error;
  skim_checkpoint* checkpoint = NULL;
  skim_model* model = NULL;
  skim_model_info info = {.size = sizeof info};
  const int failed = skim_checkpoint_synthetic("v32-tiny", 0, &checkpoint, &error) ||
                     skim_model_create(checkpoint, NULL, &model, &error) || skim_model_get_info(model, &info, &error);
  if (failed) fprintf(stderr, "%s\n", error.message);
  skim_model_free(model);
  skim_checkpoint_free(checkpoint);
  const int refused = skim_checkpoint_open("/nonexistent", &checkpoint, &error);
  printf("version %d, %s kernels; %s\n", skim_version(), info.kernels, error.message);
  return failed || refused != SKIM_IO || strstr(error.message, "/nonexistent") == NULL ||
         skim_version() != SKIM_VERSION;
}
