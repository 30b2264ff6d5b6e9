/*
 * The world of one process: messages to oneself, and requests.
 *
 * What is sent is copied, so that a program may send to itself before it receives; if a receive waits already, it is
 * copied straight to its place. Each communicator has a queue of messages that nobody received and one of receives
 * that found no message, oldest first: what comes takes the first of the other queue that fits.
 */
#define _GNU_SOURCE
#include "heddle_mpi_alone.h"
#include <pthread.h>

/* Of the queues, and of the state of every request. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum state { S_IDLE, S_PENDING, S_COMPLETE };

struct request {
  struct queued queued;
  enum state state;
  bool persistent, receives;
  bool freed;             /* It goes when it is complete. */
  int mode, rank;
  struct comm *comm;      /* 0 where it does not matter */
  struct region region;
  heddle_mpi_status status;
};

struct message {
  struct queued queued;
  struct request *sender; /* of a synchronous send that waits for its match */
  int64_t bytes;
  char data[];
};

const heddle_mpi_status alone_no_status = {.source = ANY_SOURCE, .tag = ANY_TAG};
static const heddle_mpi_status status_of_nobody = {.source = NO_RANK, .tag = ANY_TAG};
static struct message message_of_nobody = {.queued = {.object = {.kind = A_MESSAGE}, .tag = ANY_TAG}};

/* Queues. */

static void append(struct queue *queue, struct queued *item)
{
  item->next = 0;
  *queue->last = item;
  queue->last = &item->next;
}

/* The place of the first that fits; it holds 0 if there is none. */
static struct queued **find(struct queue *queue, int tag)
{
  struct queued **place = &queue->first;
  while (*place && tag != ANY_TAG && (*place)->tag != ANY_TAG && (*place)->tag != tag) place = &(*place)->next;
  return place;
}

static void take_out(struct queue *queue, struct queued **place)
{
  struct queued *item = *place;
  *place = item->next;
  if (queue->last == &item->next) queue->last = place;
}

/* Life of a request. */

static struct request *request_of(native handle)
{
  return alone_object(handle, A_REQUEST);
}

void alone_clear_request(struct object *object)
{
  alone_region_drop(&((struct request *)object)->region);
}

static void dispose(struct request *request)
{
  alone_comm_release(request->comm);
  alone_free(request);
}

static void settle(struct request *request, heddle_mpi_status status)
{
  request->status = status;
  request->state = S_COMPLETE;
  if (request->freed) dispose(request);
}

int alone_done(const heddle_mpi_status *status, native *made)
{
  struct request *request = alone_new(A_REQUEST, sizeof *request, 0);
  if (!request) return NO_MEMORY;
  request->status = *status;
  request->state = S_COMPLETE;
  *made = (native)request;
  return 0;
}

void alone_set_status(native request, const heddle_mpi_status *status)
{
  request_of(request)->status = *status;
}

/* Delivery. */

static heddle_mpi_status arrived(int tag, int64_t bytes, int error)
{
  return (heddle_mpi_status){.source = 0, .tag = tag, .error = error, .bytes = bytes};
}

static void deliver(const struct region *from, int tag, struct request *receive)
{
  alone_copy(from, &receive->region);
  settle(receive, arrived(tag, from->total, from->total > receive->region.total ? C_TRUNCATE : 0));
}

/* A message that is out of its queue has found its match. */
static void release_sender(struct message *message)
{
  if (message->sender) settle(message->sender, alone_no_status);
  message->sender = 0;
}

static void accept_message(struct message *message, struct request *receive)
{
  struct region from = alone_bytes(message->data, message->bytes);
  deliver(&from, message->queued.tag, receive);
  release_sender(message);
  alone_free(message);
}

static int leave_message(struct request *send)
{
  int64_t bytes = send->region.total;
  struct message *message = alone_new(A_MESSAGE, sizeof *message, bytes);
  if (!message) return NO_MEMORY;
  struct region to = alone_bytes(message->data, bytes);
  alone_copy(&send->region, &to);
  message->bytes = bytes;
  message->queued.tag = send->queued.tag;
  append(&send->comm->messages, &message->queued);
  if (send->mode == M_SYNCHRONOUS) {
    message->sender = send;
    send->state = S_PENDING;
  } else
    settle(send, alone_no_status);
  return 0;
}

static int launch_send(struct request *send)
{
  struct queued **place = find(&send->comm->receives, send->queued.tag);
  struct request *receive = (struct request *)*place;
  if (!receive) return leave_message(send);
  take_out(&send->comm->receives, place);
  deliver(&send->region, send->queued.tag, receive);
  settle(send, alone_no_status);
  return 0;
}

static int launch_receive(struct request *receive)
{
  struct queued **place = find(&receive->comm->messages, receive->queued.tag);
  struct message *message = (struct message *)*place;
  if (message) {
    take_out(&receive->comm->messages, place);
    accept_message(message, receive);
  } else {
    receive->state = S_PENDING;
    append(&receive->comm->receives, &receive->queued);
  }
  return 0;
}

static int launch(struct request *request)
{
  int code = 0;
  pthread_mutex_lock(&lock);
  if (request->rank == NO_RANK)
    settle(request, status_of_nobody);
  else
    code = request->receives ? launch_receive(request) : launch_send(request);
  pthread_mutex_unlock(&lock);
  return code;
}

/* What a program asks for. */

static int check_peer(native comm, int rank, int tag, bool receives)
{
  if (!alone_comm(comm)) return C_COMM;
  if (tag < 0 && !(receives && tag == ANY_TAG)) return C_TAG;
  if (rank != 0 && rank != NO_RANK && !(receives && rank == ANY_SOURCE)) return C_RANK;
  return 0;
}

struct peer {
  native comm;
  int rank, tag, mode;
  bool receives;
};

static int make_request(struct peer peer, const void *data, int64_t count, native type, native *made)
{
  struct region region;
  int code = check_peer(peer.comm, peer.rank, peer.tag, peer.receives);
  if (!code) code = alone_region(data, count, type, &region);
  if (code) return code;
  struct request *request = alone_new(A_REQUEST, sizeof *request, 0);
  if (!request) {
    alone_region_drop(&region);
    return NO_MEMORY;
  }
  request->queued.tag = peer.tag;
  request->receives = peer.receives;
  request->mode = peer.mode;
  request->rank = peer.rank;
  request->comm = alone_comm(peer.comm);
  request->region = region;
  alone_comm_hold(request->comm);
  *made = (native)request;
  return 0;
}

static int begin_request(struct peer peer, const void *data, int64_t count, native type, native *made)
{
  native request;
  int code = make_request(peer, data, count, type, &request);
  if (code) return code;
  /* Known before another thread may complete it. */
  *made = request;
  code = launch(request_of(request));
  if (code) {
    dispose(request_of(request));
    *made = 0;
  }
  return code;
}

static int make_persistent(struct peer peer, const void *data, int64_t count, native type, native *made)
{
  int code = make_request(peer, data, count, type, made);
  if (!code) request_of(*made)->persistent = true;
  return code;
}

static int check_mode(int mode)
{
  return mode == M_STANDARD || mode == M_SYNCHRONOUS || mode == M_READY ? 0 : C_ARG;
}

static int isend(native comm, int rank, int tag, int mode, const void *data, int64_t count, native type,
                 native *request)
{
  struct peer peer = {comm, rank, tag, mode, false};
  int code = check_mode(mode);
  return code ? code : begin_request(peer, data, count, type, request);
}

static int irecv(native comm, int source, int tag, void *data, int64_t count, native type, native *request)
{
  struct peer peer = {comm, source, tag, M_STANDARD, true};
  return begin_request(peer, data, count, type, request);
}

static int send_init(native comm, int rank, int tag, int mode, const void *data, int64_t count, native type,
                     native *request)
{
  struct peer peer = {comm, rank, tag, mode, false};
  int code = check_mode(mode);
  return code ? code : make_persistent(peer, data, count, type, request);
}

static int recv_init(native comm, int source, int tag, void *data, int64_t count, native type, native *request)
{
  struct peer peer = {comm, source, tag, M_STANDARD, true};
  return make_persistent(peer, data, count, type, request);
}

static int start(native *handle)
{
  struct request *request = request_of(*handle);
  return request && request->persistent && request->state == S_IDLE ? launch(request) : C_REQUEST;
}

/* Probes: whether there is a message; with `taken` it is taken out. */
static int probe(native comm, int source, int tag, int *found, struct message **taken, heddle_mpi_status *status)
{
  int code = check_peer(comm, source, tag, true);
  if (code) return code;
  *found = 1;
  if (source == NO_RANK) {
    *status = status_of_nobody;
    if (taken) *taken = &message_of_nobody;
    return 0;
  }
  pthread_mutex_lock(&lock);
  struct queue *queue = &alone_comm(comm)->messages;
  struct queued **place = find(queue, tag);
  struct message *message = (struct message *)*place;
  *found = message != 0;
  if (message) *status = arrived(message->queued.tag, message->bytes, 0);
  if (message && taken) {
    take_out(queue, place);
    release_sender(message);
    *taken = message;
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

static int iprobe(native comm, int source, int tag, int *found, heddle_mpi_status *status)
{
  return probe(comm, source, tag, found, 0, status);
}

static int improbe(native comm, int source, int tag, int *found, native *message, heddle_mpi_status *status)
{
  struct message *taken = 0;
  int code = probe(comm, source, tag, found, &taken, status);
  *message = (native)taken;
  return code;
}

static int imrecv(void *data, int64_t count, native type, native *handle, native *made)
{
  struct region region;
  struct message *message = alone_object(*handle, A_MESSAGE);
  if (!message) return C_REQUEST;
  int code = alone_region(data, count, type, &region);
  if (!code) code = alone_done(&status_of_nobody, made);
  if (code) return code;
  struct request *request = request_of(*made);
  request->region = region;
  *handle = 0;
  if (message != &message_of_nobody) accept_message(message, request);
  return 0;
}

/* Completion. */

/* The status of a request that is complete, which with that lies idle or is no more. */
static void retire(native *handle, heddle_mpi_status *status)
{
  struct request *request = request_of(*handle);
  *status = request->status;
  if (request->persistent) {
    request->state = S_IDLE;
  } else {
    dispose(request);
    *handle = 0;
  }
}

static int test(native *handle, int *done, heddle_mpi_status *status)
{
  struct request *request = request_of(*handle);
  if (*handle && !request) return C_REQUEST;
  *done = 1;
  *status = alone_no_status;
  if (!request) return 0;
  pthread_mutex_lock(&lock);
  if (request->state == S_PENDING)
    *done = 0;
  else if (request->state == S_COMPLETE)
    retire(handle, status);
  pthread_mutex_unlock(&lock);
  return 0;
}

static int test_some(int count, native *requests, int *done, int *indices, heddle_mpi_status *statuses)
{
  int active = 0, complete = 0;
  if (count < 0) return C_COUNT;
  for (int i = 0; i < count; i++)
    if (requests[i] && !request_of(requests[i])) return C_REQUEST;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < count; i++) {
    const struct request *request = request_of(requests[i]);
    if (!request || request->state == S_IDLE) continue;
    active++;
    if (request->state != S_COMPLETE) continue;
    indices[complete] = i;
    retire(&requests[i], &statuses[complete++]);
  }
  pthread_mutex_unlock(&lock);
  *done = active ? complete : -1;
  return 0;
}

/* Takes a pending request out of where it waits. */
static void withdraw(struct request *request)
{
  struct queue *queue = request->receives ? &request->comm->receives : &request->comm->messages;
  struct queued **place = &queue->first;
  if (request->receives) {
    while (*place != &request->queued) place = &(*place)->next;
    take_out(queue, place);
    return;
  }
  while (((struct message *)*place)->sender != request) place = &(*place)->next;
  struct queued *message = *place;
  take_out(queue, place);
  alone_free(message);
}

static int cancel(native *handle)
{
  struct request *request = request_of(*handle);
  if (!request) return C_REQUEST;
  pthread_mutex_lock(&lock);
  int code = request->state == S_IDLE ? C_REQUEST : 0;
  if (request->state == S_PENDING) {
    heddle_mpi_status status = alone_no_status;
    status.cancelled = 1;
    withdraw(request);
    settle(request, status);
  }
  pthread_mutex_unlock(&lock);
  return code;
}

static int request_free(native *handle)
{
  struct request *request = request_of(*handle);
  if (!request) return C_REQUEST;
  pthread_mutex_lock(&lock);
  if (request->state == S_PENDING)
    request->freed = true;
  else
    dispose(request);
  pthread_mutex_unlock(&lock);
  *handle = 0;
  return 0;
}

void alone_offer_messages(struct heddle_mpi_calls *calls)
{
  calls->no_request = 0;
  calls->isend = isend;
  calls->irecv = irecv;
  calls->improbe = improbe;
  calls->iprobe = iprobe;
  calls->imrecv = imrecv;
  calls->send_init = send_init;
  calls->recv_init = recv_init;
  calls->start = start;
  calls->test = test;
  calls->test_some = test_some;
  calls->cancel = cancel;
  calls->request_free = request_free;
}
