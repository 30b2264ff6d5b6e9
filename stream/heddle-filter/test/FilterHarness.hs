-- | Shared by the tests of components: files, sinks, and what is left after a run.
module FilterHarness
  ( -- * Programs
    stageOf,
    runWith,
    quickly,
    collected,

    -- * Files
    newDirectory,
    writtenFile,

    -- * What is left
    leavesNothing,
    descriptors,
    hasNoChildren,
  )
where

import Control.Exception (IOException, evaluate, try)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IORef (modifyIORef', newIORef, readIORef)
import Heddle.Filter
import Heddle.Filter.Language (parseStage, renderParseError)
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, listDirectory)
import System.Posix.Process (getAnyProcessStatus, getProcessID)
import System.Timeout (timeout)
import Test.Tasty.HUnit (assertBool, assertEqual, assertFailure)

-- | The stage that an expression stands for.
stageOf :: ByteString -> IO Stage
stageOf text = parseStage text >>= either (assertFailure . Char8.unpack . renderParseError text) pure

-- | Run an expression, compiled, on some bytes that come in pieces of this size.
runWith :: Int -> ByteString -> ByteString -> IO ByteString
runWith size text bytes = do
  stage <- stageOf text
  source <- bytesSource (Char8.pack "some") [size] bytes
  runBytes (compile stage) [source]

-- | Fail if it takes more than this many seconds.
quickly :: Int -> IO a -> IO a
quickly seconds action = timeout (seconds * 1000000) action >>= maybe (assertFailure "it does not end") pure

-- | Everything that a run pushes, copied, since the memory may be reused.
collected :: (Sink -> IO ()) -> IO ByteString
collected run = do
  got <- newIORef []
  run (Sink (\piece -> evaluate (Bytes.copy piece) >>= \copy -> True <$ modifyIORef' got (copy :)) (pure ()))
  Bytes.concat . reverse <$> readIORef got

-- | A directory of this process's own.
newDirectory :: IO FilePath
newDirectory = do
  temporary <- getTemporaryDirectory
  pid <- getProcessID
  let directory = temporary ++ "/heddle-component-" ++ show pid
  directory <$ createDirectoryIfMissing True directory

-- | A file in it, as a source.
writtenFile :: FilePath -> Int -> ByteString -> IO Source
writtenFile directory i text = do
  let file = directory ++ "/" ++ show i
  Bytes.writeFile file text
  pure (fileSource (Char8.pack file))

-- | No more descriptors than before, and no children, whatever it does.
leavesNothing :: IO a -> IO a
leavesNothing action = do
  before <- descriptors
  r <- action
  after <- descriptors
  -- Fewer were seen, too: perhaps what an earlier test had left to the garbage collector.
  assertBool ("descriptors: " ++ show before ++ ", then " ++ show after) (after <= before)
  none <- hasNoChildren
  assertEqual "no children" True none
  pure r

-- | How many there are.
descriptors :: IO Int
descriptors = length <$> listDirectory "/proc/self/fd"

-- | Neither running ones nor zombies.
hasNoChildren :: IO Bool
hasNoChildren =
  try (getAnyProcessStatus False False) >>= \case
    Left (_ :: IOException) -> pure True
    Right _ -> pure False
