-- | The arguments of every benchmark server: @PORT [CAPS]@.
module Arguments
  ( portAndCapabilities,
    portCapabilitiesAndMore,
  )
where

import Control.Concurrent (setNumCapabilities)
import System.Environment (getArgs, getProgName)
import System.Exit (die)
import Text.Read (readMaybe)

-- | The port to serve on; the capabilities are set on the way.
portAndCapabilities :: IO Int
portAndCapabilities = fst <$> portCapabilitiesAndMore

-- | The same, and the numbers that come after the capabilities.
portCapabilitiesAndMore :: IO (Int, [Int])
portCapabilitiesAndMore = do
  arguments <- getArgs
  case mapM readMaybe arguments of
    Just (port : more)
      | port > 0 && port < 65536 && all (> 0) more -> do
        mapM_ setNumCapabilities (take 1 more)
        pure (port, drop 1 more)
    _ -> do
      name <- getProgName
      die ("usage: " <> name <> " PORT [CAPS]")
