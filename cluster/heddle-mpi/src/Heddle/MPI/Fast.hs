-- |
-- Module      : Heddle.MPI.Fast
-- Description : Memory from process to process, as it is
-- Stability   : stable
--
-- Sends and receives memory in place: storable and primitive vectors, arrays, byte strings,
-- single values. Nothing is serialised. What is received goes into memory that is there
-- already, or into a new vector.
--
-- Processes in other languages take part: these are MPI's own messages.
--
-- Cost: an 8-byte message, the implementation's time and about 100 ns.
-- Owner: a buffer belongs to the operation until that is complete, or its request is.
module Heddle.MPI.Fast
  ( -- * Sending
    send,
    ssend,
    rsend,
    bsend,
    sendValue,

    -- * Receiving
    recv,
    recvNew,
    recvValue,
    sendrecv,

    -- * Without waiting
    isend,
    issend,
    irsend,
    irecv,
    irecvNew,

    -- * Looking first
    probe,
    iprobe,
    Found,
    foundStatus,
    mprobe,
    improbe,
    mrecv,
    mrecvNew,

    -- * Persistent requests
    Persistent,
    sendInit,
    recvInit,
    startRequest,
    closePersistent,

    -- * What can be sent
    SendBuffer,
    ReceiveBuffer,
    Element (..),
    Datatype,
    statusCount,
  )
where

import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Point
