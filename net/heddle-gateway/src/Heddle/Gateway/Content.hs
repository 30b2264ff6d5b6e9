{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Content
-- Description : The length of a request's content, which programs need first
-- Stability   : internal, exempt from the version policy
--
-- CGI, FastCGI and SCGI give a program the length of a request's content before the content, and programs read that many
-- bytes. HTTP\/1.1's chunked content and HTTP\/2's need not have a length. So such content is received as a whole before
-- the program is asked: the first 64 KB in memory, more in a temporary file without a name, in the directory @TMPDIR@ or
-- else @\/var\/tmp@ or @\/tmp@. The engine's limits of size and pace hold. Content with a length is not touched here.
--
-- Invariant: the file is open at most while 'withContent' runs; it is closed as soon as its end has been passed on, so that
-- a long answer holds neither a descriptor nor room on the disk.
-- Cost: none with a length. Without, a copy of the content, and for each 64 KB beyond the first a write and a read of a
-- file, each of which holds an OS thread and not the capability.
-- Owner: the handler's thread; then the thread that passes the content on.
-- [Source]: RFC 3875, section 4.1.2: CONTENT_LENGTH is set if and only if there is content.
module Heddle.Gateway.Content
  ( Content (..),
    hasBytes,
    withContent,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (createAndTrim, fromForeignPtr, mallocByteString)
import Data.Maybe (isJust)
import Data.Word (Word8)
import Foreign.C.String (CString, peekCString)
import Foreign.C.Types (CLong (..))
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peek)
import Heddle.Gateway.Failure
import Heddle.Gateway.Place
import Heddle.Http (Request, bodyLeft)
import Heddle.Http.Borrowed (withBodyPiece)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (bracket, mask_)
import Heddle.Prim.File (closeFile, readAt, writeWhole)
import System.IO.Error (eofErrorType, mkIOError)
import System.Posix.Types (Fd (..))

-- | A request's content, as a program gets it.
data Content
  = -- | The request has none, or it is nobody's after a local redirect.
    Contentless
  | -- | So many bytes, to be read from the client as they come.
    Passing !Int
  | -- | So many bytes that have been received. The action gives what reads them from the beginning, a piece at a time and
    -- nothing at the end; that throws 'IOError' when the file cannot be read.
    Received !Int !(IO (IO ByteString))

-- | Whether there is anything to pass on.
--
-- [Cost]: none.
hasBytes :: Content -> Bool
hasBytes = \case
  Contentless -> False
  Passing _ -> True
  Received n _ -> n > 0

-- | Run with the content of a request, of which nothing has been read.
--
-- [Blocks]: parks while content without a length is received; writing it to the file holds an OS thread.
-- [Throws]: 'Heddle.Http.BodyError' when such content is malformed, too large, too slow, or cut short.
-- [Threads]: the handler's.
withContent :: Request -> Place -> (Content -> IO a) -> IO (Either Failure a)
withContent request place use
  | isJust (placeQuery place) = Right <$> use Contentless
  | otherwise =
    bodyLeft request >>= \case
      Just 0 -> Right <$> use Contentless
      Just n -> Right <$> use (Passing n)
      Nothing -> bracket (newRef Nothing) closeOnce $ \file -> receive request file >>= traverse use

-- Either the reader at the end, or the bracket.
closeOnce :: Ref (Maybe Fd) -> IO ()
closeOnce file = mask_ (modifyRef file (\fd -> (Nothing, fd)) >>= mapM_ closeFile)

-- What has been received: a buffer, its size, how much of it is in use, and how many bytes have gone to the file.
data Gathered = Gathered !(ForeignPtr Word8) !Int !Int !Int

-- The most that is kept in memory, and how much is written and read at once.
largestBuffer :: Int
largestBuffer = 65536

-- Pieces may be as small as the client likes, so they are copied into one buffer.
receive :: Request -> Ref (Maybe Fd) -> IO (Either Failure Content)
receive request file = B.mallocByteString 4096 >>= \first -> go (Gathered first 4096 0 0)
  where
    go gathered =
      withBodyPiece request (append gathered) >>= \case
        Just (Right more) -> go more
        Just (Left failure) -> pure (Left failure)
        Nothing -> finished gathered
    finished gathered@(Gathered buffer _ used written)
      | written == 0 = pure (Right (Received used (inMemory (B.fromForeignPtr buffer 0 used))))
      | otherwise = fmap (\_ -> Received (written + used) (inFile (written + used) file)) <$> flush gathered
    append :: Gathered -> Ptr Word8 -> Int -> IO (Either Failure Gathered)
    append gathered@(Gathered buffer size used written) p n
      | n <= 0 = pure (Right gathered)
      | used < size = do
        let m = min n (size - used)
        withForeignPtr buffer (\to -> copyBytes (to `plusPtr` used) p m)
        append (Gathered buffer size (used + m) written) (p `plusPtr` m) (n - m)
      | size < largestBuffer = do
        larger <- B.mallocByteString (2 * size)
        withForeignPtr larger (\to -> withForeignPtr buffer (\from -> copyBytes to from used))
        append (Gathered larger (2 * size) used written) p n
      | otherwise = flush gathered >>= either (pure . Left) (\emptied -> append emptied p n)
    flush (Gathered buffer size used written) = do
      opened <- readRef file >>= maybe (openTemporary file) (pure . Right)
      case opened of
        Left failure -> pure (Left failure)
        Right fd -> withForeignPtr buffer (\p -> write fd p used) >>= either (pure . Left) (\() -> pure (Right (Gathered buffer size 0 (written + used))))
    write :: Fd -> Ptr Word8 -> Int -> IO (Either Failure ())
    write fd p n
      | n <= 0 = pure (Right ())
      | otherwise = do
        r <- writeWhole fd p n
        case Errno (negate r) of
          _ | r > 0 -> write fd (p `plusPtr` r) (n - r)
          EINTR -> write fd p n
          e -> pure (Left (NotKept ("writing to a temporary file: " ++ describeErrno e)))

-- Open the file, which whoever has made the reference closes.
openTemporary :: Ref (Maybe Fd) -> IO (Either Failure Fd)
openTemporary file = alloca $ \where' -> mask_ $ do
  r <- c_temporary where'
  if r < 0
    then do
      directory <- peek where' >>= peekCString
      pure (Left (NotKept ("opening a temporary file in " ++ directory ++ ": " ++ describeErrno (Errno (negate (fromIntegral r))))))
    else Right (fromIntegral r) <$ writeRef file (Just (fromIntegral r))

inMemory :: ByteString -> IO (IO ByteString)
inMemory bytes = do
  left <- newRef bytes
  pure (readRef left >>= \piece -> piece <$ writeRef left B.empty)

inFile :: Int -> Ref (Maybe Fd) -> IO (IO ByteString)
inFile size file = do
  at <- newRef 0
  pure $ do
    from <- readRef at
    let wanted = min largestBuffer (size - from)
        ended = ioError (mkIOError eofErrorType what Nothing Nothing)
    if wanted <= 0
      then B.empty <$ closeOnce file
      else
        readRef file >>= \case
          Nothing -> ended
          Just fd -> do
            piece <- B.createAndTrim wanted (\p -> checked what (readAt fd p wanted (fromIntegral from)))
            if B.null piece then ended else piece <$ writeRef at (from + B.length piece)
  where
    what = "read a request's content from its temporary file"

-- Safe: it looks a path up, and may write to the disk.
foreign import ccall safe "heddle_temporary_file" c_temporary :: Ptr CString -> IO CLong
