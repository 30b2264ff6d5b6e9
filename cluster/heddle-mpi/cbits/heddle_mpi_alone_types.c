/*
 * The world of one process: types of elements, and walks over the bytes that they name.
 *
 * A type is one run (heddle_mpi_alone.h): whatever repeats regularly takes no memory for its repetitions, and only
 * what is irregular, of indexed types and structures, is a list. In it every run knows how many bytes are before it,
 * so that a walk can begin anywhere; that is what a view of a file needs, and it makes recursion unnecessary.
 */
#define _GNU_SOURCE
#include "heddle_mpi_alone.h"
#include <complex.h>
#include <stdlib.h>
#include <string.h>

struct double_int { double value; int32_t index; };

/* `measure` is for the extent. The bytes of a pair are only those of its parts. */
#define ELEMENT(which, bytes, measure)                                                                                 \
  [which] = {.object = {.kind = A_TYPE}, .element = which, .size = bytes, .upper = bytes, .extent = sizeof(measure),   \
             .align = _Alignof(measure), .run = {.count = 1, .length = bytes}}
#define WHOLE_ELEMENT(which, c_type) ELEMENT(which, sizeof(c_type), c_type)

static struct type elements[ELEMENTS] = {
  WHOLE_ELEMENT(E_BYTE, uint8_t),
  WHOLE_ELEMENT(E_INT8, int8_t),
  WHOLE_ELEMENT(E_INT16, int16_t),
  WHOLE_ELEMENT(E_INT32, int32_t),
  WHOLE_ELEMENT(E_INT64, int64_t),
  WHOLE_ELEMENT(E_WORD8, uint8_t),
  WHOLE_ELEMENT(E_WORD16, uint16_t),
  WHOLE_ELEMENT(E_WORD32, uint32_t),
  WHOLE_ELEMENT(E_WORD64, uint64_t),
  WHOLE_ELEMENT(E_FLOAT, float),
  WHOLE_ELEMENT(E_DOUBLE, double),
  WHOLE_ELEMENT(E_COMPLEX_FLOAT, float _Complex),
  WHOLE_ELEMENT(E_COMPLEX_DOUBLE, double _Complex),
  WHOLE_ELEMENT(E_CHAR32, uint32_t),
  ELEMENT(E_DOUBLE_INT, sizeof(double) + sizeof(int32_t), struct double_int),
};

struct type *alone_type(native handle)
{
  return alone_object(handle, A_TYPE);
}

struct type *alone_element(int element)
{
  return &elements[element];
}

/* Layouts. */

static void layout_hold(struct layout *layout)
{
  if (layout) __atomic_add_fetch(&layout->refs, 1, __ATOMIC_RELAXED);
}

static bool layout_dies(struct layout *layout)
{
  return layout && __atomic_sub_fetch(&layout->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

/* With a list of what is to be freed rather than recursion: types may be nested as deep as the program likes. */
static void layout_drop(struct layout *layout)
{
  struct layout *dead = 0;
  if (layout_dies(layout)) {
    layout->next_dead = 0;
    dead = layout;
  }
  while (dead) {
    struct layout *gone = dead;
    dead = gone->next_dead;
    for (int64_t i = 0; i < gone->runs; i++) {
      struct layout *child = gone->run[i].child;
      if (layout_dies(child)) {
        child->next_dead = dead;
        dead = child;
      }
    }
    free(gone);
  }
}

int64_t alone_low(const struct run *run)
{
  int64_t last = run->count > 0 ? (run->count - 1) * run->stride : 0;
  return run->offset + (last < 0 ? last : 0) + (run->child ? run->child->low : 0);
}

static int64_t run_high(const struct run *run)
{
  int64_t last = run->count > 0 ? (run->count - 1) * run->stride : 0;
  return run->offset + (last > 0 ? last : 0) + (run->child ? run->child->high : run->length);
}

static int64_t run_size(const struct run *run)
{
  return run->count * run->length;
}

/* A layout of these runs, whose children become its own; 0: no memory, and then they stay the caller's. */
static struct layout *layout_of(const struct run *runs, int64_t count)
{
  struct layout *layout = malloc(sizeof *layout + (size_t)count * sizeof *runs);
  if (!layout) return 0;
  layout->refs = 1;
  layout->runs = count;
  memcpy(layout->run, runs, (size_t)count * sizeof *runs);
  layout->low = alone_low(runs);
  layout->high = run_high(runs);
  for (int64_t i = 1; i < count; i++) {
    if (alone_low(&runs[i]) < layout->low) layout->low = alone_low(&runs[i]);
    if (run_high(&runs[i]) > layout->high) layout->high = run_high(&runs[i]);
  }
  return layout;
}

/* *sum = a * b + c, if that can be. */
static bool multiply_add(int64_t a, int64_t b, int64_t c, int64_t *sum)
{
  int64_t product;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(product, c, sum);
}

/* What lies side by side is one block. */
static struct run joined(struct run run)
{
  if (!run.child && run.stride == run.length && run.count > 1) {
    run.length *= run.count;
    run.stride = 0;
    run.count = 1;
  }
  return run;
}

/* A run `count` times, `stride` apart. That it fits into 64 bits is checked before. */
static int repeat(const struct run *inner, int64_t count, int64_t stride, struct run *run)
{
  int64_t span;
  *run = *inner;
  if (count == 0 || run_size(inner) == 0) {
    *run = (struct run){0};
    return 0;
  }
  if (count == 1) {
    layout_hold(run->child);
  } else if (inner->count == 1) {
    run->count = count;
    run->stride = stride;
    layout_hold(run->child);
  } else if (multiply_add(inner->count, inner->stride, 0, &span) && span == stride) {
    run->count *= count;
    layout_hold(run->child);
  } else {
    struct run boxed = *inner;
    boxed.start = 0;
    layout_hold(boxed.child);
    *run = (struct run){.count = count, .stride = stride, .length = run_size(inner), .child = layout_of(&boxed, 1)};
    if (!run->child) {
      layout_drop(boxed.child);
      return NO_MEMORY;
    }
  }
  *run = joined(*run);
  return 0;
}

/* Bounds. */

/* `length` of a type, an extent apart, that begin `at`: added to the bounds, to the alignment, and to the size. Of
 * bounds that the program chose and those that follow from the elements, the former count alone. */
static int include(struct type *all, const struct type *part, int64_t length, int64_t at)
{
  int64_t last, reach, size, lower, upper;
  if (!multiply_add(length, part->size, all->size, &size)) return TOO_LARGE;
  if (length == 0 || part->empty) return 0;
  if (!multiply_add(length - 1, part->extent, 0, &last)) return TOO_LARGE;
  if (__builtin_add_overflow(part->lower, at, &lower) || __builtin_add_overflow(part->upper, at, &upper))
    return TOO_LARGE;
  if (__builtin_add_overflow(last < 0 ? lower : upper, last, &reach)) return TOO_LARGE;
  if (last < 0) lower = reach; else upper = reach;
  all->size = size;
  if (part->align > all->align) all->align = part->align;
  if (all->fixed && !part->fixed) return 0;
  if (all->empty || (part->fixed && !all->fixed)) {
    all->lower = lower;
    all->upper = upper;
  } else {
    if (lower < all->lower) all->lower = lower;
    if (upper > all->upper) all->upper = upper;
  }
  all->fixed = part->fixed;
  all->empty = false;
  return 0;
}

static int set_extent(struct type *type)
{
  if (__builtin_sub_overflow(type->upper, type->lower, &type->extent)) return TOO_LARGE;
  int64_t over = type->fixed ? 0 : type->extent % type->align;
  return over && __builtin_add_overflow(type->extent, type->align - over, &type->extent) ? TOO_LARGE : 0;
}

/* Types. */

static const struct type nothing = {.object = {.kind = A_TYPE}, .element = -1, .align = 1, .empty = true};

void alone_clear_type(struct object *object)
{
  layout_drop(((struct type *)object)->run.child);
}

/* Gives the program a type like this one; its run is the new one's, or dropped. */
static int publish(struct type *type, native *made)
{
  int code = set_extent(type);
  struct type *fresh = code ? 0 : alone_new(A_TYPE, sizeof *fresh, 0);
  if (!fresh) {
    layout_drop(type->run.child);
    return code ? code : NO_MEMORY;
  }
  /* Without the object: its neighbours in the list may be changing it. */
  memcpy((char *)fresh + sizeof fresh->object, (char *)type + sizeof type->object, sizeof *type - sizeof type->object);
  fresh->element = -1;
  *made = (native)fresh;
  return 0;
}

/* The runs of a type that is being composed. */
struct list {
  struct run *runs;
  int64_t count, capacity, size;
};

static void list_drop(struct list *list)
{
  for (int64_t i = 0; i < list->count; i++) layout_drop(list->runs[i].child);
  free(list->runs);
}

static int list_grow(struct list *list)
{
  if (list->count < list->capacity) return 0;
  int64_t capacity = list->capacity ? 2 * list->capacity : 8;
  struct run *runs = reallocarray(list->runs, (size_t)capacity, sizeof *runs);
  if (!runs) return NO_MEMORY;
  list->runs = runs;
  list->capacity = capacity;
  return 0;
}

/* The run becomes the list's, or is dropped. Blocks side by side become one. */
static int list_add(struct list *list, struct run run)
{
  struct run *last = list->count ? &list->runs[list->count - 1] : 0;
  if (run_size(&run) == 0) return 0;
  bool blocks = last && !last->child && !run.child && last->count == 1 && run.count == 1;
  if (blocks && last->offset + last->length == run.offset) {
    last->length += run.length;
  } else {
    if (list_grow(list)) {
      layout_drop(run.child);
      return NO_MEMORY;
    }
    run.start = list->size;
    list->runs[list->count++] = run;
  }
  list->size += run_size(&run);
  return 0;
}

/* The whole list as one run; the list is used up. */
static int list_finish(struct list *list, struct run *run)
{
  *run = (struct run){0};
  if (list->count == 1) {
    *run = list->runs[0];
  } else if (list->count > 1) {
    struct layout *layout = layout_of(list->runs, list->count);
    if (!layout) {
      list_drop(list);
      return NO_MEMORY;
    }
    *run = (struct run){.count = 1, .length = list->size, .child = layout};
  }
  free(list->runs);
  return 0;
}

/* `length` of a type at an offset, added to what is being composed. */
static int add_part(struct type *all, struct list *list, const struct type *part, int64_t length, int64_t offset)
{
  struct run run;
  if (length < 0) return C_ARG;
  int code = include(all, part, length, offset);
  if (!code) code = repeat(&part->run, length, part->extent, &run);
  if (code) return code;
  run.offset += offset;
  return list_add(list, run);
}

/* Of `types`, or, without them, of one type. */
static int compose(int64_t count, const int64_t *lengths, const int64_t *offsets, const native *types, native one,
                   native *made)
{
  struct type all = nothing;
  struct list list = {0};
  int code = count < 0 ? C_COUNT : 0;
  for (int64_t i = 0; !code && i < count; i++) {
    const struct type *part = alone_type(types ? types[i] : one);
    code = part ? add_part(&all, &list, part, lengths[i], offsets[i]) : C_TYPE;
  }
  if (code) {
    list_drop(&list);
    return code;
  }
  code = list_finish(&list, &all.run);
  return code ? code : publish(&all, made);
}

static int type_indexed(int64_t count, const int64_t *lengths, const int64_t *offset_bytes, native type, native *made)
{
  return alone_type(type) ? compose(count, lengths, offset_bytes, 0, type, made) : C_TYPE;
}

static int type_struct(int count, const int64_t *lengths, const int64_t *offset_bytes, const native *types,
                       native *made)
{
  return compose(count, lengths, offset_bytes, types, 0, made);
}

/* `count` of a type, `stride` bytes apart, into `all`, which takes over what was in `part` but not its run. */
static int replicate(const struct type *part, int64_t count, int64_t stride, struct type *all)
{
  struct type spaced = *part;
  spaced.extent = stride;
  *all = nothing;
  int code = include(all, &spaced, count, 0);
  return code ? code : repeat(&part->run, count, stride, &all->run);
}

static int type_vector(int64_t count, int64_t length, int64_t stride_bytes, native type, native *made)
{
  struct type block, all;
  const struct type *part = alone_type(type);
  if (!part) return C_TYPE;
  if (count < 0) return C_COUNT;
  if (length < 0) return C_ARG;
  int code = replicate(part, length, part->extent, &block);
  if (code) return code;
  code = replicate(&block, count, stride_bytes, &all);
  layout_drop(block.run.child);
  return code ? code : publish(&all, made);
}

static int type_contiguous(int64_t count, native type, native *made)
{
  return count < 0 ? C_COUNT : type_vector(1, count, 0, type, made);
}

static bool is_part(int64_t size, int64_t part, int64_t start)
{
  return size >= 1 && part >= 1 && part <= size && start >= 0 && start <= size - part;
}

/* A part of an array, from the dimension that varies fastest on. */
static int type_subarray(int dimensions, const int64_t *sizes, const int64_t *part, const int64_t *starts,
                         int column_major, native type, native *made)
{
  const struct type *element = alone_type(type);
  if (!element) return C_TYPE;
  if (dimensions < 1) return C_ARG;
  int64_t stride = element->extent, offset = 0;
  struct type all = *element;
  layout_hold(all.run.child);
  for (int i = 0, code; i < dimensions; i++) {
    int at = column_major ? i : dimensions - 1 - i;
    struct type wider = {0};
    code = is_part(sizes[at], part[at], starts[at]) ? replicate(&all, part[at], stride, &wider) : C_ARG;
    layout_drop(all.run.child);
    if (code) return code;
    all = wider;
    if (!multiply_add(starts[at], stride, offset, &offset) || !multiply_add(sizes[at], stride, 0, &stride)) {
      layout_drop(all.run.child);
      return TOO_LARGE;
    }
  }
  all.run.offset += offset;
  all.lower = 0;
  all.upper = stride;
  all.fixed = true;
  all.empty = false;
  return publish(&all, made);
}

static int type_resized(native type, int64_t lower_bytes, int64_t extent_bytes, native *made)
{
  const struct type *old = alone_type(type);
  if (!old) return C_TYPE;
  struct type all = *old;
  all.lower = lower_bytes;
  if (__builtin_add_overflow(lower_bytes, extent_bytes, &all.upper)) return TOO_LARGE;
  all.fixed = true;
  all.empty = false;
  layout_hold(all.run.child);
  return publish(&all, made);
}

static int type_commit(native *type)
{
  return alone_type(*type) ? 0 : C_TYPE;
}

static int type_measure(native type, int64_t *size, int64_t *lower, int64_t *extent)
{
  const struct type *measured = alone_type(type);
  if (!measured) return C_TYPE;
  *size = measured->size;
  *lower = measured->lower;
  *extent = measured->extent;
  return 0;
}

static int type_reach(native type, int64_t *low, int64_t *high)
{
  const struct type *measured = alone_type(type);
  if (!measured) return C_TYPE;
  *low = measured->size ? alone_low(&measured->run) : 0;
  *high = measured->size ? run_high(&measured->run) : 0;
  return 0;
}

static int type_free(native *type)
{
  struct type *freed = alone_type(*type);
  if (!freed || freed->element >= 0) return C_TYPE;
  alone_free(freed);
  *type = 0;
  return 0;
}

/* Regions. */

int alone_region(const void *data, int64_t count, native handle, struct region *region)
{
  const struct type *type = alone_type(handle);
  int64_t total, reach;
  if (!type) return C_TYPE;
  if (count < 0) return C_COUNT;
  if (!data && count > 0 && type->element >= 0) return C_BUFFER;
  if (!multiply_add(count, type->size, 0, &total) || !multiply_add(count, type->extent, 0, &reach)) return TOO_LARGE;
  int code = repeat(&type->run, count, type->extent, &region->whole);
  region->base = (char *)data;
  region->total = total;
  return code;
}

struct region alone_bytes(void *data, int64_t bytes)
{
  return (struct region){.base = data, .whole = {.count = 1, .length = bytes}, .total = bytes};
}

void alone_region_hold(const struct region *region)
{
  layout_hold(region->whole.child);
}

void alone_region_drop(const struct region *region)
{
  layout_drop(region->whole.child);
}

/* The run of a layout that has the byte at this position. */
static const struct run *run_at(const struct layout *layout, int64_t position)
{
  int64_t low = 0, high = layout->runs;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (layout->run[middle].start <= position) low = middle; else high = middle;
  }
  return &layout->run[low];
}

/* To a byte of a run without a child. */
static void enter(struct cursor *cursor, const struct run *run, int64_t position)
{
  int64_t index = position / run->length, within = position - index * run->length;
  int64_t begin = cursor->origin + run->offset + index * run->stride;
  cursor->run = run;
  cursor->at = begin + within;
  cursor->left = run->length - within;
  cursor->more = run->count - index - 1;
  cursor->next = cursor->more ? begin + run->stride : 0;
  cursor->stride = run->stride;
  cursor->block = run->length;
}

static void locate(struct cursor *cursor)
{
  const struct run *run = &cursor->region->whole;
  int64_t position = cursor->position;
  cursor->last = run;
  cursor->origin = 0;
  while (run->child) {
    const struct layout *layout = run->child;
    int64_t index = position / run->length;
    cursor->origin += run->offset + index * run->stride;
    cursor->last = &layout->run[layout->runs - 1];
    position -= index * run->length;
    run = run_at(layout, position);
    position -= run->start;
  }
  enter(cursor, run, position);
}

struct cursor alone_cursor(const struct region *region, int64_t position)
{
  struct cursor cursor = {.region = region, .position = position};
  if (position < region->total) locate(&cursor);
  return cursor;
}

void alone_advance(struct cursor *cursor, int64_t bytes)
{
  cursor->position += bytes;
  cursor->at += bytes;
  cursor->left -= bytes;
  if (cursor->left > 0 || cursor->position >= cursor->region->total) return;
  if (cursor->more > 0) {
    cursor->at = cursor->next;
    cursor->left = cursor->block;
    if (--cursor->more) cursor->next += cursor->stride;
  } else if (cursor->run < cursor->last && !cursor->run[1].child)
    enter(cursor, cursor->run + 1, 0);
  else
    locate(cursor);
}

/* As much as both have room for. */
int64_t alone_copy(const struct region *from, const struct region *to)
{
  int64_t bytes = from->total < to->total ? from->total : to->total;
  struct cursor source = alone_cursor(from, 0), target = alone_cursor(to, 0);
  while (source.position < bytes) {
    int64_t step = source.left < target.left ? source.left : target.left;
    if (step > bytes - source.position) step = bytes - source.position;
    memmove(to->base + target.at, from->base + source.at, (size_t)step);
    alone_advance(&source, step);
    alone_advance(&target, step);
  }
  return bytes;
}

void alone_offer_types(struct heddle_mpi_calls *calls)
{
  for (int i = 0; i < ELEMENTS; i++) calls->element[i] = (native)&elements[i];
  calls->type_contiguous = type_contiguous;
  calls->type_vector = type_vector;
  calls->type_indexed = type_indexed;
  calls->type_subarray = type_subarray;
  calls->type_resized = type_resized;
  calls->type_struct = type_struct;
  calls->type_commit = type_commit;
  calls->type_measure = type_measure;
  calls->type_reach = type_reach;
  calls->type_free = type_free;
}
