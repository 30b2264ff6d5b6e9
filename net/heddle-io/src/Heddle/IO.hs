-- |
-- Module      : Heddle.IO
-- Description : Connections and descriptors, in direct style
-- Stability   : stable
--
-- One event manager per capability; each descriptor is registered once, so a wait costs no
-- system call. A connection is served by plain blocking code in a cheap thread; every wait
-- takes a 'Deadline', any thread may close a connection, and closing ends its waits.
--
-- Invariant: no system call is ever made on a descriptor that was closed and reused.
-- Cost: receiving and sending cost their system call and about 20 ns.
-- Owner: 'withRuntime', or the process ('systemRuntime').
module Heddle.IO
  ( -- * Runtimes
    Runtime,
    withRuntime,
    systemRuntime,
    capabilitiesOf,
    Config (..),
    defaultConfig,
    BackendChoice (..),
    HeddleIOException (..),
    IOManagerError (..),

    -- * Deadlines

    -- | See "Heddle.Prim.Clock" for more, and "Heddle.Timer" for waiting.
    Deadline,
    Nanos,
    deadlineIn,
    never,
    seconds,
    milliseconds,

    -- * Listening
    Listener,
    listenerAddress,
    withListener,
    newListener,
    adoptListener,
    adoptListeners,
    closeListener,
    listenerDescriptors,
    handOverListener,
    takenOver,
    ListenOptions (..),
    defaultListenOptions,
    Spread (..),

    -- * Serving
    serveEach,
    serve,
    After (..),
    ServiceOptions (..),
    Shortage (..),
    describeShortage,
    defaultServiceOptions,
    accept,
    acceptUntil,

    -- * Connecting
    Conn,
    connectUntil,
    ConnectError (..),
    peerAddress,
    localAddress,

    -- * Receiving
    recvUntil,
    recvIntoUntil,
    RecvResult (..),

    -- * Sending
    sendAllUntil,
    sendVUntil,
    SendResult (..),

    -- * Waiting
    readableUntil,
    writableUntil,
    Wake (..),
    unpark,
    touchUntil,

    -- * Closing
    close,
    isOpen,
    IOClosed (..),

    -- * Descriptors from outside
    register,
    adopt,
    deregister,

    -- * Waiting on any descriptor
    threadWaitRead,
    threadWaitWrite,
    threadWaitReadUntil,
    threadWaitWriteUntil,

    -- * Event-driven programs

    -- | Callbacks, for programs written for GHC's event manager.
    registerFd,
    unregisterFd,
    FdKey,
    keyFd,
    Event,
    evtRead,
    evtWrite,
    eventIs,
  )
where

import Heddle.IO.Connection
import Heddle.IO.Descriptor
import Heddle.IO.Internal.Exception (HeddleIOException (..))
import Heddle.IO.Internal.Listener
  ( ListenOptions (..),
    Listener,
    Spread (..),
    adoptListener,
    adoptListeners,
    closeListener,
    defaultListenOptions,
    handOverListener,
    listenerAddress,
    listenerDescriptors,
    newListener,
    takenOver,
    withListener,
  )
import Heddle.IO.Internal.Runtime
  ( BackendChoice (..),
    Config (..),
    IOManagerError (..),
    Runtime,
    capabilitiesOf,
    defaultConfig,
    systemRuntime,
    withRuntime,
  )
import Heddle.IO.Internal.Transfer (IOClosed (..))
import Heddle.IO.Serve
import Heddle.IO.Service (After (..), ServiceOptions (..), Shortage (..), defaultServiceOptions, describeShortage)
import Heddle.Prim.Clock (Deadline, Nanos, deadlineIn, milliseconds, never, seconds)
