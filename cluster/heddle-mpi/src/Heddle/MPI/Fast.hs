-- |
-- Module      : Heddle.MPI.Fast
-- Description : Memory from process to process, without serialisation
-- Stability   : stable
--
-- Sends and receives memory in place: storable and primitive vectors, arrays, byte strings,
-- single values. Messages are received into existing memory or into a new vector.
--
-- The messages are plain MPI messages, so processes in other languages can take part.
--
-- Cost: an 8-byte message, the implementation's time and about 100 ns.
-- Owner: the operation owns a buffer until it, or its request, is complete.
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
    recvUntil,
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
import Heddle.MPI.Internal.Persistent
import Heddle.MPI.Internal.Point
