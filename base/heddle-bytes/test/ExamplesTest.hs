-- | The examples of the library's haddocks.
module ExamplesTest
  ( tests,
  )
where

import Heddle.Testkit.Examples (examplesPrint)
import Test.Tasty (TestTree)

tests :: TestTree
tests = examplesPrint ["heddle-bytes", "heddle-prim"] context

-- | What a module's examples need besides the module.
context :: String -> [String]
context = \case
  "Heddle.Bytes.Utf8" -> ["import Prelude hiding (length, splitAt)"]
  "Heddle.Bytes.HttpDate" -> ["import Heddle.Prim.Clock (EpochSeconds (..))"]
  "Heddle.Bytes.Put" -> ["import Heddle.Bytes.Write"]
  "Heddle.Bytes.Hash.Class" -> ["import Data.Text (Text)", "import Heddle.Bytes.Hash.String"]
  _ -> []
