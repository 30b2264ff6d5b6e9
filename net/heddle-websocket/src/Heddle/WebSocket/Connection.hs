{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Connection
-- Description : What a connection consists of
-- Stability   : hidden; "Heddle.WebSocket" exports the type
--
-- One thread at a time receives, any number send. The receiver's words and references are touched by the receiver
-- alone; the senders' by the thread that is in the frame gate. What both sides read are single words.
--
-- Invariant: an idle connection has no buffer: input that must wait is copied into a string of at most 139 bytes.
-- Cost: about 800 bytes a connection, and what a message that is half received needs.
-- Owner: 'Heddle.WebSocket.Session.serveWebSocketOn'.
module Heddle.WebSocket.Connection
  ( Connection (..),
    Role (..),
    Holding (..),
    Pending (..),
    noPending,
    newConnection,

    -- * Words
    get,
    set,
    pattern InputStart,
    pattern InputEnd,
    pattern FrameFirst,
    pattern FrameLeft,
    pattern FrameKey,
    pattern MessageKind,
    pattern MessageDeflated,
    pattern MessageSize,
    pattern InFrame,
    pattern TryFirst,
    pattern SilenceEnds,
    pattern Pinged,
    pattern MessageFill,
    pattern InTail,
    pattern InflateFull,
    pattern CloseEnds,
    pattern OutputFill,
    pattern Gathering,
    pattern PongGathered,
    pattern CloseSent,
    pattern MaskCount,
    pattern PeerEnded,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Bytes.Hash (HashKey (..), newKey)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.IO.Transport (Transport)
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readWord, writeWord)
import Heddle.Prim.Buffer (Buffer)
import Heddle.Prim.Thread (ThreadId, myThreadId)
import Heddle.WebSocket.Deflate (Deflating)
import Heddle.WebSocket.Exception (ConnectionEnded)
import Heddle.WebSocket.Flate (Flate)
import Heddle.WebSocket.Gate
import Heddle.WebSocket.Options

-- | Which side of the connection this is.
data Role = Server | Client
  deriving stock (Eq, Show)

-- | A buffer, if there is one.
data Holding = Nothing' | Holds !Buffer

-- | Control frames that wait for the gate: the payloads of a pong and a ping, and that of a Close with what it is sent for.
data Pending = Pending !(Maybe ByteString) !(Maybe ByteString) !(Maybe ByteString)

-- | None.
noPending :: Pending
noPending = Pending Nothing Nothing Nothing
{-# NOINLINE noPending #-}

-- | An open WebSocket connection.
data Connection = Connection
  { connTransport :: !Transport,
    connRole :: !Role,
    connOptions :: !WebSocketOptions,
    -- | How messages are compressed, if the peer agreed.
    connDeflating :: !(Maybe Deflating),
    connSubprotocol :: !(Maybe ByteString),
    -- | See the patterns below.
    connWords :: !Words,
    -- | The receiver's buffer while there is input in it.
    connInput :: !(Ref Holding),
    -- | The beginning of a head or of a control frame, which waits without a buffer.
    connLeft :: !(Ref ByteString),
    -- | Input that was received before the connection began, and not yet read.
    connReceived :: !(Ref ByteString),
    -- | The message so far.
    connMessage :: !(Ref Holding),
    -- | Its text so far.
    connText :: !(Ref Utf8.State),
    -- | Its decompressor.
    connInflating :: !(Ref (Maybe Flate)),
    -- | Why nothing more can be received.
    connEnd :: !(Ref (Maybe ConnectionEnded)),
    -- | Why nothing more can be sent.
    connBroken :: !(Ref (Maybe ConnectionEnded)),
    -- | The thread that received last, if it may gather frames.
    connReceiver :: !(Ref ThreadId),
    -- | One receiver at a time.
    connReceives :: !Gate,
    -- | One message at a time.
    connMessages :: !Gate,
    -- | One frame at a time.
    connFrames :: !Gate,
    -- | Frames that are gathered.
    connOutput :: !(Ref Holding),
    connPending :: !(Ref Pending),
    -- | Of the generator of masks: a client's.
    connKey :: !HashKey
  }

-- | A connection over a transport, with input that was received already.
--
-- [Cost]: about 800 bytes; for a client a system call.
newConnection :: WebSocketOptions -> Role -> Maybe Deflating -> Maybe ByteString -> Transport -> ByteString -> IO Connection
newConnection options role deflating subprotocol transport received = do
  ws <- newWords 24
  writeWord ws TryFirst 1
  Connection transport role options deflating subprotocol ws
    <$> newRef Nothing'
    <*> newRef B.empty
    -- Even without bytes, a pinned string would keep its block of 4 KB.
    <*> newRef (if B.null received then B.empty else received)
    <*> newRef Nothing'
    <*> newRef Utf8.start
    <*> newRef Nothing
    <*> newRef Nothing
    <*> newRef Nothing
    <*> (myThreadId >>= newRef)
    <*> newGate
    <*> newGate
    <*> newGate
    <*> newRef Nothing'
    <*> newRef noPending
    <*> (if role == Client then newKey else pure (HashKey 0 0))

-- | Read a word.
get :: Connection -> Int -> IO Int
get = readWord . connWords
{-# INLINE get #-}

-- | Write a word.
set :: Connection -> Int -> Int -> IO ()
set = writeWord . connWords
{-# INLINE set #-}

-- | The receiver's: where the unread input begins and ends in its buffer; the first byte of the frame whose payload is
-- being read, how many bytes of it are left, its key for the next of them; 1 if there is such a frame; the message's opcode (0: none
-- has begun), whether it is compressed, and its size so far, compressed; 1 if the socket may have bytes without an edge
-- to come; until when the peer may be silent (0: as of the next wait); 1 if it was sent a ping since; how many bytes
-- of the message are in its buffer; how many of the four bytes after a compressed message were given to zlib; 1 if zlib
-- has more to write.
pattern InputStart, InputEnd, FrameFirst, FrameLeft, FrameKey, MessageKind, MessageDeflated, MessageSize, InFrame, TryFirst, SilenceEnds, Pinged, MessageFill, InTail, InflateFull :: Int
pattern InputStart = 0
pattern InputEnd = 1
pattern FrameFirst = 2
pattern FrameLeft = 3
pattern FrameKey = 4
pattern MessageKind = 5
pattern MessageDeflated = 6
pattern MessageSize = 7
pattern InFrame = 8
pattern TryFirst = 9
pattern SilenceEnds = 10
pattern Pinged = 11
pattern MessageFill = 14
pattern InTail = 15
pattern InflateFull = 20

-- | 1 once the peer's Close was read, written by the receiver.
pattern PeerEnded :: Int
pattern PeerEnded = 12

-- | The senders': how many bytes are gathered; 1 once a Close was sent; how many masks were made; until
-- when the peer may take to answer a Close.
pattern OutputFill, CloseSent, MaskCount, CloseEnds :: Int
pattern OutputFill = 16
pattern CloseSent = 17
pattern MaskCount = 18
pattern CloseEnds = 19

-- | 1 while the receiver has more input, written by the receiver: it may gather frames, for it will flush them.
-- 'PongGathered' is 1 if one of them is a pong.
pattern Gathering, PongGathered :: Int
pattern Gathering = 13
pattern PongGathered = 21
