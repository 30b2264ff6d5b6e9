{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Registration
-- Description : Connections without copies and without allocation
-- Stability   : stable
--
-- For writers of servers. A 'Registration' is a descriptor's entry in its capability's event
-- manager (tokio's @ScheduledIo@, Go's @pollDesc@). This module reads and writes through it:
-- into memory of the caller's, for instance a borrowed buffer, from several pieces at once,
-- from a file. Functions answer with a number: a count, or a negative code, which is minus
-- the error number, 'TimedOutCode' or 'ClosedCode'. A deadline is one store. heddle-http is
-- built on this module.
--
-- "Heddle.IO" is the interface for all other programs: its 'Heddle.IO.Conn' answers with
-- types, copies received bytes into a 'Data.ByteString.ByteString', and lets any number of
-- threads read or write one connection in turn. 'registrationOf' and 'connectionOf' convert.
--
-- Rules: one thread at a time reads and one writes. Memory given to a call is kept until the
-- call has returned ('Heddle.Prim.Buffer.withBuffer'). After a negative answer other than
-- 'TimedOutCode' the connection is of no more use; close it. Where a function says that the
-- caller is masked, use it in a handler of "Heddle.IO.Service", which runs masked, or under
-- 'Heddle.Prim.Exception.mask_'.
--
-- Invariant: no system call is ever made on a descriptor that was closed and reused.
-- Cost: receiving or sending is its system call and about 20 ns; nothing is allocated unless
-- it waits, and a wait allocates 24 bytes.
-- Owner: the thread that runs the connection; any thread may close it.
-- Shared writes per call: 0.
module Heddle.IO.Registration
  ( -- * Registrations
    Registration,
    registrationOf,
    connectionOf,
    registrationCapability,
    registrationPeer,
    withPeer,

    -- * Codes
    pattern TimedOutCode,
    pattern ClosedCode,
    throwCode,
    IOClosed (..),

    -- * Buffers

    -- | "Heddle.Prim.Buffer" has the buffer's address and size.
    borrowBuffer,
    giveBackBuffer,

    -- * Receiving
    receiveNow,
    receiveUntil,

    -- * Sending
    sendNow,
    sendUntil,
    sendMoreUntil,
    endSending,

    -- ** Gathering
    sendVectorUntil,
    pokePiece,
    pieceBytes,

    -- ** Files
    sendFilePaced,

    -- * Any system call
    using,
    Interest (..),
    attempt,

    -- * Waiting
    waitUntil,
    wakeReader,
    armUntil,
    pauseUntil,
    hungUp,
    peerHungUp,
    forgetHangUp,

    -- * Time
    freshNow,
    deadlineOver,

    -- * Closing
    closeRegistration,
    isClosing,
  )
where

import Heddle.IO.Connection (Conn (connRegistration), connectionOf)
import Heddle.IO.Internal.Address (peerBytes, withAddress)
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Transfer
import Heddle.IO.Internal.Types (Interest (..), Registration (registrationPeer))
import Heddle.Prim.Unsafe (unsafeDupable)
import Network.Socket (SockAddr)

-- | A connection's registration. While it is used, the caller is the connection's only
-- reader, or only writer, in the directions that it uses: calls of "Heddle.IO" take turns
-- with each other, not with the calls of this module. Keep the connection of a
-- 'Heddle.Socket.Socket', which the collector may close, reachable meanwhile. Receiving and
-- sending need a socket; for pipes and terminals use 'attempt'.
--
-- [Cost]: O(1).
registrationOf :: Conn -> Registration
registrationOf = connRegistration
{-# INLINE registrationOf #-}

-- | The same registration, with another address as its peer's: that of the client whose connection a proxy passes
-- on, which 'Heddle.IO.peerAddress' then answers.
--
-- [Cost]: a copy of its ten fields.
withPeer :: SockAddr -> Registration -> Registration
withPeer address registration = registration {registrationPeer = unsafeDupable (withAddress address peerBytes)}
