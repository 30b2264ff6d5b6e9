-- |
-- Module      : Heddle.Walk.Find.Internal.Outputs
-- Description : Files that records are written to
-- Stability   : internal, exempt from the version policy
--
-- Files of @-fprint@ and similar actions: opened and emptied before the walk, shared when two
-- primaries name the same file, written in whole records. In sorted order the walk brings
-- their records into order; in any order they are gathered here, under a lock.
--
-- Shared writes per record: the lock, in any order.
--
-- Cost: a copy per record, a write per 32 KiB; in sorted order a write per record.
-- Owner: the run.
module Heddle.Walk.Find.Internal.Outputs
  ( openOutput,
    Outputs,
    withOutputs,
    putRecord,
    flushOutputs,
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.Maybe (fromMaybe)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno (..), errnoOf)
import Heddle.Prim.Exception (IOException, finally, try)
import Heddle.Prim.File (truncateCreate)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Walk.Find.Internal.Settings
import Heddle.Walk.Find.Internal.Syntax (Sink (..))
import Heddle.Walk.Find.Internal.System (openNamed)
import Heddle.Walk.Internal.Entry (Entry, putByteString, writeRecordTo)
import System.Posix.Files (deviceID, fileID, getFdStatus)
import System.Posix.IO.ByteString (closeFd, fdWriteBuf)
import Prelude hiding (Read)

-- | Open and empty a file, if it is not open already, while the command line is read.
--
-- [Blocks]: holds an OS thread; for a named pipe, until it has a reader.
openOutput :: ByteString -> Read Sink
openOutput name
  | name == Char8.pack "/dev/stdout" = pure StandardOutput
  | name == Char8.pack "/dev/stderr" = pure StandardError
  | otherwise = do
    opened <- effect . try $ do
      fd <- openNamed name truncateCreate
      status <- getFdStatus fd
      pure (fd, (fromIntegral (deviceID status), fromIntegral (fileID status)))
    case opened of
      Left (e :: IOException) -> failWith [quote name, Char8.pack ": ", errnoText (fromMaybe (Errno 5) (errnoOf e))]
      Right (fd, identity) -> do
        known <- settings setOutputs
        case [i | (i, file) <- zip [0 ..] known, outputIdentity file == identity] of
          i : _ -> effect (closeFd fd) >> pure (ToFile i)
          [] -> do
            change (\s -> s {setOutputs = known ++ [OutputFile name fd identity]})
            pure (ToFile (length known))

-- | The open files of a run.
data Outputs = Outputs
  { -- | Does the walk bring records into order?
    outputsSorted :: !Bool,
    outputFiles :: ![Buffered],
    outputsFailed :: !(Ref Bool)
  }

data Buffered = Buffered
  { bufferFile :: !OutputFile,
    bufferLock :: !Lock,
    -- | Records not yet written, last first.
    bufferRecords :: !(Ref [ByteString]),
    bufferBytes :: !(Ref Int)
  }

-- | Use the files, write out the rest, and close them; 'False' if writing failed. The flag
-- says whether the walk is in sorted order.
withOutputs :: Bool -> Settings -> (Outputs -> IO a) -> IO (a, Bool)
withOutputs sorted chosen use = do
  files <- mapM (\file -> Buffered file <$> newLock <*> newRef [] <*> newRef 0) (setOutputs chosen)
  failed <- newRef False
  let outputs = Outputs sorted files failed
  (`finally` mapM_ (closeFd . outputDescriptor) (setOutputs chosen)) $ do
    result <- use outputs
    flushOutputs (setProgram chosen) outputs
    bad <- readRef failed
    pure (result, not bad)

-- | Append a whole record to a sink.
--
-- [Blocks]: while the reader of a pipe is slow.
-- [Threads]: any.
putRecord :: ByteString -> Outputs -> Sink -> Entry -> ByteString -> IO ()
putRecord program outputs sink v record = case sink of
  StandardOutput -> putByteString v record
  StandardError -> writeRecordTo v 2 record
  ToFile i
    | outputsSorted outputs -> writeRecordTo v (fromIntegral (outputDescriptor (bufferFile file))) record
    | otherwise -> withLock (bufferLock file) $ do
      records <- readRef (bufferRecords file)
      bytes <- readRef (bufferBytes file)
      writeRef (bufferRecords file) (record : records)
      writeRef (bufferBytes file) (bytes + Bytes.length record)
      when (bytes + Bytes.length record > 32768) (writeOut program outputs file)
    where
      file = outputFiles outputs !! i

-- | Write out what was gathered, as before a program that reads the files is run.
flushOutputs :: ByteString -> Outputs -> IO ()
flushOutputs program outputs = mapM_ (\file -> withLock (bufferLock file) (writeOut program outputs file)) (outputFiles outputs)

-- With the lock held.
writeOut :: ByteString -> Outputs -> Buffered -> IO ()
writeOut program outputs file = do
  records <- readRef (bufferRecords file)
  unless (null records) $ do
    writeRef (bufferRecords file) []
    writeRef (bufferBytes file) 0
    written <- try (Bytes.unsafeUseAsCStringLen (Bytes.concat (reverse records)) (uncurry writeAll))
    case written of
      Right () -> pure ()
      Left (e :: IOException) -> do
        already <- readRef (outputsFailed outputs)
        writeRef (outputsFailed outputs) True
        unless already $
          complain program $
            Bytes.concat [quote (outputName (bufferFile file)), Char8.pack ": ", errnoText (fromMaybe (Errno 5) (errnoOf e))]
  where
    fd = outputDescriptor (bufferFile file)
    writeAll p n
      | n <= 0 = pure ()
      | otherwise = do
        k <- fromIntegral <$> fdWriteBuf fd (castPtr p) (fromIntegral n)
        writeAll (p `plusPtr` k) (n - k)
