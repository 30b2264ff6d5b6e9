-- |
-- Module      : Heddle.IO.Transport
-- Description : A connection's bytes, bare or through a layer such as TLS
-- Stability   : stable
--
-- For writers of servers and clients. A 'Transport' is what a protocol such as HTTP runs on:
-- a 'Registration', or a 'Layer' on top of one, which changes the bytes on their way. TLS is a
-- layer; it lives in a package of its own, which this one does not know. Functions answer with
-- the numbers of "Heddle.IO.Registration": a count, or a negative code.
--
-- Rules: those of "Heddle.IO.Registration": one thread at a time reads and one writes; after
-- a negative answer other than 'Heddle.IO.Registration.TimedOutCode' the connection is of no more
-- use.
--
-- Invariant: what a layer has accepted for writing is in the kernel when the call returns,
-- so an idle layer holds no output.
-- Cost: without a layer, that of "Heddle.IO.Registration" and a comparison; with one, an unknown
-- call more.
-- Owner: the thread that runs the connection. It closes the transport, which releases the
-- layer; closing the registration alone ends its waits.
-- Shared writes per call: 0.
module Heddle.IO.Transport
  ( -- * Transports
    Transport (..),
    transportRegistration,
    isLayered,

    -- * Reading
    readNow,
    readUntil,
    holdsInput,

    -- * Writing
    writeNow,
    writeSomeUntil,
    writeUntil,
    writeMoreUntil,
    writeFilePaced,
    endWriting,

    -- * Closing
    closeTransport,

    -- * Layers

    -- | For writers of layers.
    Layer (..),
    LayerFacts (..),

    -- ** Opening
    Opening,
    Opened (..),
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.IO.Registration
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (finally)
import Heddle.Prim.Socket qualified as S
import System.Posix.Types (Fd)

-- | What carries a connection's bytes.
data Transport
  = -- | The socket itself.
    Bare !Registration
  | -- | A layer over the socket.
    Layered !Registration !Layer

-- | The functions of a layer. The answers are those of the functions of this module that
-- have the same purpose.
data Layer = Layer
  { -- | 'readNow'; the caller is masked.
    layerReadNow :: !(Ptr Word8 -> Int -> IO Int),
    -- | 'readUntil'.
    layerReadUntil :: !(Ptr Word8 -> Int -> Deadline -> IO Int),
    -- | 'holdsInput'.
    layerHoldsInput :: !(IO Bool),
    -- | 'writeSomeUntil'.
    layerWriteSomeUntil :: !(Ptr Word8 -> Int -> Deadline -> IO Int),
    -- | 'writeFilePaced'.
    layerWriteFilePaced :: !(Fd -> Int64 -> Int -> (Int -> IO Deadline) -> IO Int),
    -- | Tell the peer that no more comes, then 'endSending'; never parks.
    layerEndWriting :: !(IO Int),
    -- | Release the layer's memory; idempotent, never parks. The registration stays open.
    layerClose :: !(IO ()),
    layerFacts :: !LayerFacts
  }

-- | What is known of a layer that is open.
data LayerFacts = LayerFacts
  { -- | The layer's protocol: @TLSv1.3@.
    factVersion :: !ByteString,
    -- | The cipher suite, by its IANA name.
    factCipher :: !ByteString,
    -- | The application protocol that both sides agreed on (ALPN), empty if none.
    factProtocol :: !ByteString,
    -- | The server name that the client asked for (SNI), empty if none.
    factServerName :: !ByteString,
    -- | The peer's certificate in DER, if it has shown one.
    factPeerCertificate :: !(Maybe ByteString)
  }
  deriving stock (Eq, Show)

-- | Opens a layer on a connection that has something to read, by the deadline.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; waits are interruptible. An interrupted opening releases what
-- it has made.
type Opening = Registration -> Deadline -> IO Opened

-- | How opening a layer ended. In all but the first case there is nothing to release.
data Opened
  = Opened !Layer
  | -- | The peer does not speak the layer's protocol. The bytes that it sent were received.
    OtherProtocol !ByteString
  | -- | Failed, and why. The peer has been told, as far as the protocol has words for it.
    NotOpened !String

-- | The registration below. Its own reading and writing functions bypass the layer.
transportRegistration :: Transport -> Registration
transportRegistration = \case
  Bare registration -> registration
  Layered registration _ -> registration
{-# INLINE transportRegistration #-}

-- | Whether there is a layer.
isLayered :: Transport -> Bool
isLayered = \case
  Bare _ -> False
  Layered _ _ -> True
{-# INLINE isLayered #-}

-- | @readNow transport pointer count@ reads what there is: a count, 0 at the peer's end, minus
-- EAGAIN when there is nothing, or another negative code.
--
-- [Cost]: 'receiveNow'.
-- [Blocks]: never.
-- [Masking]: the caller is masked.
-- [Threads]: one reader at a time.
readNow :: Transport -> Ptr Word8 -> Int -> IO Int
readNow = \case
  Bare registration -> receiveNow registration
  Layered _ layer -> layerReadNow layer
{-# INLINE readNow #-}

-- | @readUntil transport pointer count deadline@ reads at least one byte and at most
-- @count@: a count, 0 at the peer's end, or a negative code.
--
-- [Cost]: 'receiveUntil'.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Threads]: one reader at a time.
readUntil :: Transport -> Ptr Word8 -> Int -> Deadline -> IO Int
readUntil = \case
  Bare registration -> receiveUntil registration
  Layered _ layer -> layerReadUntil layer
{-# INLINE readUntil #-}

-- | Whether there may be input of which no readiness will be reported: bytes that the layer has
-- received, or that its last system call may have left in the socket. A connection must not wait
-- before it has read them.
--
-- [Blocks]: never.
-- [Threads]: the reader's.
holdsInput :: Transport -> IO Bool
holdsInput = \case
  Bare _ -> pure False
  Layered _ layer -> layerHoldsInput layer
{-# INLINE holdsInput #-}

-- | @writeNow transport pointer count@ is a first attempt: it writes what can be written
-- at once. The answer is a count, also 0 or less when that is nothing; 'writeSomeUntil' says
-- why. A layer takes nothing.
--
-- [Cost]: 'sendNow'.
-- [Blocks]: never.
-- [Masking]: the caller is masked.
-- [Threads]: one writer at a time.
writeNow :: Transport -> Ptr Word8 -> Int -> IO Int
writeNow = \case
  Bare registration -> sendNow registration
  Layered _ _ -> \_ _ -> pure 0
{-# INLINE writeNow #-}

-- | @writeSomeUntil transport pointer count deadline@ writes at least one byte: a count, or
-- a negative code.
--
-- [Cost]: one system call.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked. After an interruption an unknown part has been
-- written: close the connection.
-- [Threads]: one writer at a time.
writeSomeUntil :: Transport -> Ptr Word8 -> Int -> Deadline -> IO Int
writeSomeUntil transport p n deadline = case transport of
  Bare registration -> attempt registration Writable deadline (\fd -> S.send fd p n)
  Layered _ layer -> layerWriteSomeUntil layer p n deadline
{-# INLINE writeSomeUntil #-}

-- | 'writeSomeUntil' until all is written: the count, or a negative code.
--
-- [Blocks]: parks.
-- [Masking]: as 'writeSomeUntil'.
-- [Threads]: one writer at a time.
writeUntil :: Transport -> Ptr Word8 -> Int -> Deadline -> IO Int
writeUntil transport p n deadline = case transport of
  Bare registration -> sendUntil registration p n deadline
  Layered _ layer -> whole layer p n deadline
{-# INLINE writeUntil #-}

-- | 'writeUntil', telling the kernel that more follows at once ('sendMoreUntil').
--
-- [Blocks]: parks.
-- [Masking]: as 'writeSomeUntil'.
-- [Threads]: one writer at a time.
writeMoreUntil :: Transport -> Ptr Word8 -> Int -> Deadline -> IO Int
writeMoreUntil transport p n deadline = case transport of
  Bare registration -> sendMoreUntil registration p n deadline
  Layered _ layer -> whole layer p n deadline
{-# INLINE writeMoreUntil #-}

whole :: Layer -> Ptr Word8 -> Int -> Deadline -> IO Int
whole layer p0 n deadline = go 0
  where
    go done
      | done >= n = pure n
      | otherwise = do
        r <- layerWriteSomeUntil layer (p0 `plusPtr` done) (n - done) deadline
        if r < 0 then pure r else go (done + r)

-- | 'sendFilePaced'; a layer reads the file and writes what it makes of it.
--
-- [Blocks]: parks; while pages come from the disk, holds an OS thread.
-- [Masking]: as 'writeSomeUntil'.
-- [Threads]: one writer at a time.
writeFilePaced :: Transport -> Fd -> Int64 -> Int -> (Int -> IO Deadline) -> IO Int
writeFilePaced = \case
  Bare registration -> sendFilePaced registration
  Layered _ layer -> layerWriteFilePaced layer
{-# INLINE writeFilePaced #-}

-- | End the writing direction: the peer reads the end after what was written, and reading goes
-- on. 0 or a negative code.
--
-- [Cost]: one system call; with a layer, two.
-- [Blocks]: never.
endWriting :: Transport -> IO Int
endWriting = \case
  Bare registration -> endSending registration
  Layered _ layer -> layerEndWriting layer

-- | Release the layer and close the connection. Idempotent.
--
-- [Blocks]: never.
-- [Threads]: the connection's; no call on the transport is in progress.
closeTransport :: Transport -> IO ()
closeTransport = \case
  Bare registration -> void (closeRegistration registration)
  Layered registration layer -> layerClose layer `finally` closeRegistration registration
