-- |
-- Module      : Heddle.Http.H2.Rest
-- Description : Content that waits for an HTTP/2 client
-- Stability   : internal, exempt from the version policy
--
-- What is left of a reply whose handler has returned needs neither a workspace nor a buffer: it is read, or copied, when
-- the client has room for it. Replies that wait with parts of one file share its descriptor.
--
-- Cost: a copy; for files a read of as much as there is room for.
-- Owner: the stream's thread.
module Heddle.Http.H2.Rest
  ( Piece (..),
    pieceLength,
    offer,
    sendRest,
    shareFiles,
  )
where

import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (traverse_)
import Data.Int (Int64)
import Data.List (nub)
import Data.Map.Strict qualified as Map
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Context
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.H2.Session
import Heddle.Http.H2.State
import Heddle.Http.Reply (Prebuilt (..))
import Heddle.Http.Settings
import Heddle.IO.Registration (borrowBuffer, giveBackBuffer)
import Heddle.Prim.Atomic (modifyRef)
import Heddle.Prim.Buffer (bufferPtr, bufferSize, keepAlive, withBuffer)
import Heddle.Prim.Clock (monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.File (FileKind (..), FileStatus (..), closeFile, fileStatus, readAt, readAtNoWait)
import Heddle.Prim.Socket (duplicate)
import System.Posix.Types (Fd)

-- | Content that is still to be sent.
data Piece
  = PieceBytes !ByteString
  | -- | Where in the reply's buffer, and how many bytes.
    PiecePrebuilt !Prebuilt !Int !Int
  | -- | Descriptor, offset and length in bytes.
    PieceFile !Fd !Int64 !Int

-- | How long a piece is.
--
-- [Units]: bytes.
pieceLength :: Piece -> Int
pieceLength = \case
  PieceBytes b -> B.length b
  PiecePrebuilt _ _ n -> n
  PieceFile _ _ n -> n

-- A piece without its first bytes.
without :: Int -> Piece -> Piece
without k = \case
  PieceBytes b -> PieceBytes (B.drop k b)
  PiecePrebuilt p at n -> PiecePrebuilt p (at + k) (n - k)
  PieceFile file offset n -> PieceFile file (offset + fromIntegral k) (n - k)

-- | Let the session take of the last pieces of a reply, none of them empty, what it has room for: how much that was, and what is left.
--
-- [Blocks]: never, but a read of a file may hold an OS thread.
-- [Throws]: 'ConnectionLost', also when a file is shorter than announced; the stream is then given up.
offer :: Http2 -> StreamName -> [Piece] -> IO (Int, [Piece])
offer h2 name = go 0
  where
    session = http2Session h2
    go !sent = \case
      [] -> pure (sent, [])
      piece : others -> do
        r <- accepted (null others) piece
        if r < 0
          then throwIO ConnectionLost
          else if r == pieceLength piece then go (sent + r) others else pure (sent + r, without r piece : others)
    accepted final = \case
      PieceBytes b -> unsafeUseAsCStringLen b $ \(p, n) -> writeOutput session name (castPtr p) n final
      PiecePrebuilt p at n -> withBuffer (prebuiltBuffer p) $ \q -> writeOutput session name (q `plusPtr` at) n final
      PieceFile file offset n ->
        outputRoom session name >>= \room ->
          if room <= 0
            then pure room
            else do
              buffer <- borrowBuffer (http2Registration h2)
              r <- fromFile (bufferPtr buffer) (bufferSize buffer) file offset n final 0 room
              keepAlive buffer
              r <$ giveBackBuffer (http2Registration h2) buffer
    fromFile :: Ptr Word8 -> Int -> Fd -> Int64 -> Int -> Bool -> Int -> Int -> IO Int
    fromFile p size file offset n final done room
      | done == n || room == 0 = pure done
      | room < 0 = pure room
      | otherwise = do
        let at = offset + fromIntegral done
            count = min size (min room (n - done))
        quick <- readAtNoWait file p count at
        r <- if quick > 0 then pure quick else readAt file p count at
        if r <= 0
          then do
            -- Its length was announced, so the stream cannot end well.
            resetStream session name internalError OwnFault
            -1 <$ kick h2
          else do
            k <- writeOutput session name p r (final && done + r == n)
            if k < r then pure (if k < 0 then k else done + k) else outputRoom session name >>= fromFile p size file offset n final (done + r)
    internalError = 2

-- | Send pieces as the client takes them, at least at the settings' pace; what is accepted is told to the action.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost', also for a client that is too slow, whose stream is then reset.
sendRest :: Http2 -> Stream -> (Int -> IO ()) -> [Piece] -> IO ()
sendRest h2 stream told pieces0 = monotonicNow >>= \began -> go pieces0 began 0
  where
    session = http2Session h2
    name = streamName stream
    pace = settingReplyPace (contextSettings (http2Context h2))
    cancelled = 8
    go pieces began since = unless (null pieces) $ do
      kick h2
      r <- awaitStream h2 stream ForRoom (paceDeadline pace began since) ((\room -> if room == 0 then Nothing else Just room) <$> outputRoom session name)
      case r of
        Nothing -> do
          resetStream session name cancelled Provoked
          kick h2
          throwIO ConnectionLost
        Just room
          | room < 0 -> throwIO ConnectionLost
          | otherwise -> do
            (k, left) <- offer h2 name pieces
            told k
            now <- monotonicNow
            if paceKept pace began (since + k) now then go left now 0 else go left began (since + k)

-- | The same pieces with descriptors that all waiting replies of this capability share, and the action that releases them. The reply
-- is released at once, so bytes between parts of files are copied; where they are many, or there is no file, all stays as it is.
--
-- [Cost]: fstat, and F_DUPFD for the first reply that waits with a file; a copy of up to 16 KB.
-- [Blocks]: never.
-- [Masking]: the caller is masked.
shareFiles :: Context -> [Piece] -> IO () -> IO ([Piece], IO ())
shareFiles context pieces release
  | null files || sum [B.length b | PieceBytes b <- pieces] > 16384 || not (null [() | PiecePrebuilt {} <- pieces]) = pure (pieces, release)
  | otherwise = do
    shared <- mapM share files
    case sequence shared of
      Nothing -> (pieces, release) <$ traverse_ (traverse_ (unshare . snd)) shared
      Just them -> do
        pieces' <- mapM (kept (zip files (map fst them))) pieces
        release
        pure (pieces', traverse_ (unshare . snd) them)
  where
    files = nub [file | PieceFile file _ _ <- pieces]
    kept known = \case
      PieceFile file offset n | Just fd <- lookup file known -> pure (PieceFile fd offset n)
      PieceBytes b -> PieceBytes <$> evaluate (B.copy b)
      piece -> pure piece
    table = contextFiles context
    share file =
      fileStatus file >>= \case
        Right found | statusKind found == RegularFile -> do
          let key = (statusDevice found, statusInode found)
          one <- modifyRef table (use key Nothing)
          case one of
            Just fd -> pure (Just (fd, key))
            Nothing -> do
              made <- duplicate file
              if made < 0
                then pure Nothing
                else do
                  let fd = fromIntegral made
                  used <- modifyRef table (use key (Just fd))
                  unless (used == Just fd) (void (closeFile fd))
                  pure ((\it -> (it, key)) <$> used)
        _ -> pure Nothing
    use key new open = case Map.lookup key open of
      Just (fd, n) -> (Map.insert key (fd, n + 1) open, Just fd)
      Nothing -> (maybe open (\fd -> Map.insert key (fd, 1) open) new, new)
    unshare key = do
      over <- modifyRef table $ \open -> case Map.lookup key open of
        Just (fd, 1) -> (Map.delete key open, Just fd)
        Just (fd, n) -> (Map.insert key (fd, n - 1) open, Nothing)
        Nothing -> (open, Nothing)
      traverse_ closeFile over
